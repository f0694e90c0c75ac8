/** What a critic is trained on: an update's sequences with values and returns. The engine is not needed for it. */

import { NoCredit } from '../training/advantages.ts';
import type { Sample } from '../training/sample.ts';

/** A sequence with tokens that count. `values` and `returns` have one number per such token. */
export interface ValuedSequence {
  readonly tokens: readonly number[];
  readonly mask: readonly number[];
  /** Values before the first step. */
  readonly values: Float64Array;
  readonly returns: Float64Array;
}

/** The sequences that have tokens that count. Errors: `NoCredit` if the estimator returned no returns. */
export function valuedSequences(
  samples: readonly Sample[],
  returns: readonly Float64Array[] | undefined,
): ValuedSequence[] {
  if (returns === undefined)
    throw new NoCredit(
      'the critic has no returns to train on: set algorithm.advantage to gae, or to your own estimator over tokens',
    );
  return samples.flatMap(({ datum: { tokens, mask }, count, values }, i) =>
    count > 0 && values ? [{ tokens, mask, values, returns: returns[i] ?? values }] : [],
  );
}
