/** Reductions and normalisation over minibatches of a table, as SkyRL's trainer applies them. */

import { normaliseAdvantages, reduceAdvantages } from '../../../trainer/algorithms/reductions.ts';
import type { LossReduction } from '../../../protocol/algorithm.ts';
import { flat, lengthsOf, type Table } from './vectors.ts';

type Bounds = ReadonlyArray<readonly [number, number]>;

export interface ReductionCase {
  readonly reduction: LossReduction;
  readonly micro_batch_size: number;
  readonly max_seq_len: number;
  readonly prompt_boundaries: Bounds | null;
}

/** Starts of consecutive runs inside [from, to), relative to `from`. */
function startsWithin(bounds: Bounds, from: number, to: number): number[] {
  const inside = bounds.filter(([first, end]) => first >= from && end <= to);
  return [...inside.map(([first]) => first - from), to - from];
}

/** Whole micro-batches only: the remainder is not trained on. */
const microStarts = (rows: number, size: number): number[] =>
  Array.from({ length: Math.floor(rows / size) + 1 }, (_, i) => i * size);

export function reduced(
  given: ReductionCase,
  advantages: Table,
  mask: Table,
  from = 0,
  to = mask.length,
): Float64Array {
  const rows = mask.slice(from, to);
  return reduceAdvantages(flat(advantages.slice(from, to)), given.reduction, {
    starts: lengthsOf(rows),
    mask: flat(rows),
    maxSequenceTokens: given.max_seq_len,
    microStarts: microStarts(rows.length, given.micro_batch_size),
    ...(given.prompt_boundaries && { promptStarts: startsWithin(given.prompt_boundaries, from, to) }),
  });
}

export interface NormalisedCase extends ReductionCase {
  readonly advantage_batch_normalize: boolean;
  readonly mini_batch_boundaries: Bounds;
}

export function normalised(given: NormalisedCase, advantages: Table, responseMask: Table, lossMask: Table): number[] {
  const width = advantages[0]?.length ?? 0;
  const whole = Array.from(
    given.advantage_batch_normalize ? normaliseAdvantages(flat(advantages), flat(responseMask)) : flat(advantages),
  );
  const rows = advantages.map((_, row) => whole.slice(row * width, (row + 1) * width));
  return given.mini_batch_boundaries.flatMap(([from, to]) => [...reduced(given, rows, lossMask, from, to)]);
}
