/** A sequence with the numbers of its tokens that count, in order, before the update's first step. */

import type { Datum } from '../update-request.ts';
import { countTargets } from '../model/token-batch.ts';

export interface Sample {
  readonly datum: Datum;
  /** Number of tokens that count, and length of all arrays. */
  readonly count: number;
  /** Log-probabilities recorded when sampling. In nats. */
  readonly recorded: Float64Array;
  /** Log-probabilities of the policy before the update's first step. */
  readonly old: Float64Array;
  /** Log-probabilities of the reference policy, if there is one. */
  readonly reference: Float64Array | undefined;
  /** The critic's value of the prefix before each token, before the update's first step; absent without a critic. */
  readonly values?: Float64Array;
}

/** The values at the tokens that count: all tokens with mask 1 except the sequence's first token. */
export function atTargets(datum: Datum, values: readonly number[]): Float64Array {
  const out = new Float64Array(countTargets(datum));
  let next = 0;
  for (let i = 1; i < datum.tokens.length; i++) if (datum.mask[i]) out[next++] = values[i] ?? 0;
  return out;
}
