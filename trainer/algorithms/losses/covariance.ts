/** How far a token's advantage and its log-probability move together: where entropy collapses from. */

import { at, maskedMean } from '../rows.ts';
import type { PolicyTokens } from './loss.ts';

/** (A − mean A)(logprob − mean logprob) per token, means over the tokens that count (Cui et al. 2025, eq. 10). */
export function covariances({ mask, advantages, logprobs }: PolicyTokens): Float64Array {
  const advantage = maskedMean(mask, (i) => at(advantages, i));
  const logprob = maskedMean(mask, (i) => at(logprobs, i));
  return Float64Array.from(mask, (_, i) => (at(advantages, i) - advantage) * (at(logprobs, i) - logprob));
}
