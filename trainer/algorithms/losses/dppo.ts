/** DPPO: the trust region is a bound on the probability's own change, not on the ratio. */

import { at, maskedMean } from '../rows.ts';
import { type PolicyLossDefinition, termsOf } from './loss.ts';
import { ratioOf } from './ppo.ts';
import type { LossSettings } from './settings.ts';

/** Keeps both logarithms of a binary KL finite. */
const EPSILON = 1e-8;

/** KL of the two-valued distributions "this token, or another". */
function binaryKl(sampled: number, trained: number): number {
  const [a, b] = [Math.min(1 - EPSILON, Math.max(EPSILON, sampled)), Math.min(1 - EPSILON, Math.max(EPSILON, trained))];
  return a * Math.log(a / b) + (1 - a) * Math.log((1 - a) / (1 - b));
}

/** Whether a step along `advantage` would leave the region further. */
function leaves(trained: number, sampled: number, advantage: number, { divergence, deltaLow, deltaHigh }: LossSettings['dppo']): boolean {
  const change = trained - sampled;
  if (divergence === 'binary_tv') return advantage > 0 ? change > deltaHigh : advantage < 0 && -change > deltaLow;
  const kl = binaryKl(sampled, trained);
  return advantage > 0 ? change > 0 && kl > deltaHigh : advantage < 0 && change < 0 && kl > deltaLow;
}

/**
 * −ρ·A, and 0 where the token's probability p has left that of the sampling policy, μ, by more than δ along the sign of A,
 * by total variation |p − μ| or by the binary KL(μ ‖ p); ρ = exp(logprob − rollout) (DPPO: Qi et al. 2026, "Rethinking the
 * Trust Region in LLM Reinforcement Learning"). Where nothing recorded μ, the old policy stands for it.
 */
export const dppo: PolicyLossDefinition = {
  correctable: true,
  terms: (tokens, { dppo: settings }) => {
    const { mask, logprobs, advantages } = tokens;
    const rollout = tokens.rollout ?? tokens.old;
    const isOutside = new Uint8Array(mask.length);
    return termsOf(
      mask.length,
      (i) => {
        const [logprob, sampled, advantage] = [at(logprobs, i), at(rollout, i), at(advantages, i)];
        const [ratio, slope] = ratioOf(logprob, sampled);
        const outside = leaves(Math.exp(logprob), Math.exp(sampled), advantage, settings);
        isOutside[i] = Number(outside);
        return outside ? [0, 0] : [-ratio * advantage, -slope * advantage];
      },
      () => ({ clip_ratio: maskedMean(mask, (i) => at(isOutside, i)) }),
    );
  },
};
