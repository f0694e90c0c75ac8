/** A pass's datums as batches of bounded size. No result but its rounding depends on the cut. Pure. */

import type { TinkerDatum } from '../../protocol/tinker.ts';
import type { TokenRows } from '../model/decoder.ts';
import { blockOf, packedBlock } from '../model/packed-batch.ts';
import { paddedLength } from '../model/token-batch.ts';

/** Sequences that are computed together; every position counts. */
export interface PassBatch extends TokenRows {
  /** [positions]: what each position predicts. */
  readonly targets: Int32Array;
  /** Places of the datums in the pass, in the order of their positions. */
  readonly members: readonly number[];
}

/** Places of the datums, cut into groups of similar length, the longest first. */
function groupsOf(lengths: readonly number[], budget: number): number[][] {
  const order = [...lengths.keys()].sort((a, b) => (lengths[b] ?? 0) - (lengths[a] ?? 0) || a - b);
  const groups: number[][] = [];
  let [current, width, block]: [number[], number, number] = [[], 0, -1];
  for (const i of order) {
    const length = lengths[i] ?? 0;
    if (current.length === 0 || blockOf(length) !== block || (current.length + 1) * width > budget) {
      [current, width, block] = [[], paddedLength(length), blockOf(length)];
      groups.push(current);
    }
    current.push(i);
  }
  return groups;
}

function joined(arrays: readonly Int32Array[]): Int32Array {
  const all = new Int32Array(arrays.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const array of arrays) {
    all.set(array, at);
    at += array.length;
  }
  return all;
}

/** One row without padding; only attention sees the sequences padded, in one block. */
function batchOf(data: readonly TinkerDatum[], members: readonly number[]): PassBatch {
  const own = members.flatMap((i) => data[i] ?? []);
  const ids = joined(own.map(({ tokens }) => tokens));
  return {
    batch: 1,
    length: ids.length,
    ids,
    positions: ids.map((_, i) => i),
    targets: joined(own.map(({ targets }) => targets)),
    blocks: [packedBlock(own.map(({ tokens }) => tokens.length))],
    members,
  };
}

/**
 * All datums, each in one batch. `budget`: tokens of a batch, with the padding that attention sees; a longer sequence
 * has a batch of its own. The batches share few graphs, since each has one block.
 */
export function* passBatches(data: readonly TinkerDatum[], budget: number): Generator<PassBatch> {
  for (const members of groupsOf(
    data.map(({ tokens }) => tokens.length),
    budget,
  ))
    yield batchOf(data, members);
}
