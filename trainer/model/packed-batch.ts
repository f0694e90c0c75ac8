/** Sequences packed into one row without padding. Only attention sees padded rows, block by block. */

import type { Batching } from '../passes.ts';
import type { PackedBlock } from './layers/attention-blocks.ts';
import { type TokenBatch, type TokenSequence, heatOf, paddedLength, tokenBatch } from './token-batch.ts';

/** Sequences of one block are at most this long, or at most twice as long as the block's shortest. */
const shortBlock = 128;

/** The class of lengths that a sequence belongs to. */
export const blockOf = (tokens: number): number => Math.max(0, Math.ceil(Math.log2(tokens / shortBlock)));

/** Indices of the sequences, grouped by similar length, the longest first. */
function byLength(lengths: readonly number[]): number[][] {
  const blocks = new Map<number, number[]>();
  for (const [i, length] of lengths.entries()) {
    const members = blocks.get(blockOf(length)) ?? [];
    blocks.set(blockOf(length), [...members, i]);
  }
  return [...blocks].sort(([a], [b]) => b - a).map(([, members]) => members);
}

/** A block of sequences with these lengths. */
export function packedBlock(lengths: readonly number[]): PackedBlock {
  const length = paddedLength(Math.max(...lengths));
  const places = new Int32Array(lengths.reduce((sum, one) => sum + one, 0));
  let at = 0;
  for (const [row, own] of lengths.entries()) for (let i = 0; i < own; i++) places[at++] = row * length + i;
  return { batch: lengths.length, length, places };
}

/**
 * One row of all sequences without padding. Attention sees them separately, in blocks of similar length, so that its
 * cost depends on the sequences and not on the row. Positions start at 0 in each sequence.
 */
export function packedBatch(sequences: readonly TokenSequence[]): TokenBatch {
  const lengths = sequences.map(({ tokens }) => Math.max(1, tokens.length - 1));
  const blocks = byLength(lengths);
  const starts: number[] = [];
  let length = 0;
  for (const row of blocks.flat()) {
    starts[row] = length;
    length += lengths[row] ?? 0;
  }
  const targets = sequences.flatMap(({ tokens, mask }, row) =>
    tokens.flatMap((label, i) =>
      i > 0 && mask[i] ? [{ position: (starts[row] ?? 0) + i - 1, label, row, index: i }] : [],
    ),
  );
  const ids = new Int32Array(length);
  for (const [row, { tokens }] of sequences.entries())
    ids.set(tokens.slice(0, Math.max(1, tokens.length - 1)), starts[row]);
  return {
    batch: 1,
    length,
    ids,
    blocks: blocks.map((members) => packedBlock(members.map((row) => lengths[row] ?? 0))),
    positions: Int32Array.from(targets, ({ position }) => position),
    labels: Int32Array.from(targets, ({ label }) => label),
    rowOf: Int32Array.from(targets, ({ row }) => row),
    indexOf: Int32Array.from(targets, ({ index }) => index),
    ...heatOf(sequences),
  };
}

export const batchOf = (sequences: readonly TokenSequence[], { packing }: Pick<Batching, 'packing'>): TokenBatch =>
  packing === true ? packedBatch(sequences) : tokenBatch(sequences);
