/** A sequence with all that is known of the tokens that count, in their order, before the update's first step. */

import type { Datum } from '../update-request.ts';
import { countTargets } from '../model/token-batch.ts';

export interface Sample {
  readonly datum: Datum;
  /** Number of tokens that count; all arrays are as long. */
  readonly count: number;
  /** As recorded when sampled; nats. */
  readonly recorded: Float64Array;
  /** Of the policy as it is when the update begins. */
  readonly old: Float64Array;
  /** Of the reference policy, where there is one. */
  readonly reference: Float64Array | undefined;
  /** Of what stands before each token, by the critic as it is when the update begins, where there is one. */
  readonly values?: Float64Array;
}

/** The values at the tokens that count: all that are masked in but the first token, which nothing precedes. */
export function atTargets(datum: Datum, values: readonly number[]): Float64Array {
  const out = new Float64Array(countTargets(datum));
  let next = 0;
  for (let i = 1; i < datum.tokens.length; i++) if (datum.mask[i]) out[next++] = values[i] ?? 0;
  return out;
}
