/** SAPO: a smooth gate instead of PPO's clip, steeper for tokens whose advantage is not positive. */

import { at } from '../rows.ts';
import { type PolicyLossDefinition, termsOf } from './loss.ts';
import { ratioOf } from './ppo.ts';

/**
 * −A · σ(τ(ρ − 1)) · 4/τ with τ by the sign of A (SAPO: Gao et al. 2025, eq. 5 and 6). Its slope at ρ = 1 is −A, like
 * PPO's.
 */
export const sapo: PolicyLossDefinition = {
  correctable: true,
  terms: ({ mask, logprobs, old, advantages }, { sapo: { tauPositive, tauNegative } }) =>
    termsOf(
      mask.length,
      (i) => {
        const advantage = at(advantages, i);
        const tau = advantage > 0 ? tauPositive : tauNegative;
        const [ratio, slope] = ratioOf(at(logprobs, i), at(old, i));
        const gate = 1 / (1 + Math.exp(-tau * (ratio - 1)));
        return [(-advantage * gate * 4) / tau, -advantage * 4 * gate * (1 - gate) * slope];
      },
      () => ({ clip_ratio: 0 }),
    ),
};
