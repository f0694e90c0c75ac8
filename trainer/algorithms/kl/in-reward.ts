/** KL as a penalty on each token's reward, before advantages are estimated. */

import { type Values, at, countOf, eachRow } from '../rows.ts';
import { klEstimate } from './estimate.ts';
import type { KlEstimator } from '../../../protocol/algorithm.ts';
import type { KlTokens } from './loss.ts';

export interface PenalisedRewards {
  readonly rewards: Float64Array;
  /** Mean over sequences of each one's mean over the tokens that count. */
  readonly mean: number;
  /** Mean over sequences of each one's largest estimate, signs left out. */
  readonly max: number;
}

/** r_t − weight · kl_t where a token counts; a weight below 0 is 0 (InstructGPT: Ouyang et al. 2022, eq. 2, per token). */
export function penaliseRewards(
  tokens: KlTokens & { readonly rewards: Values },
  kind: KlEstimator,
  weight: number,
): PenalisedRewards {
  const rewards = Float64Array.from(tokens.rewards);
  let [mean, max, rows] = [0, 0, 0];
  eachRow(tokens.starts, (_, from, to) => {
    let [sum, largest] = [0, 0];
    for (let i = from; i < to; i++) {
      const kl = at(tokens.mask, i) * klEstimate(kind, at(tokens.logprobs, i), at(tokens.reference, i)).kl;
      rewards[i] = at(tokens.rewards, i) - Math.max(0, weight) * kl;
      sum += kl;
      largest = Math.max(largest, Math.abs(kl));
    }
    mean += sum / Math.max(1, countOf(tokens.mask, from, to));
    max += largest;
    rows += 1;
  });
  return { rewards, mean: mean / Math.max(1, rows), max: max / Math.max(1, rows) };
}
