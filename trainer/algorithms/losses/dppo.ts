/** DPPO: the trust region is a bound on the probability's own change, not on the ratio. */

import { at, maskedMean } from '../rows.ts';
import { LossRefused, type PolicyLossDefinition, termsOf } from './loss.ts';
import { ratioOf } from './ppo.ts';
import type { LossSettings } from '../../../protocol/algorithm.ts';

/** Keeps the logarithm finite where a token is all but certain. */
const EPSILON = 1e-8;

/** KL of the two-valued distributions "this token, or another", from log-probabilities: however rare, a token counts as it is. */
function binaryKl(sampled: number, trained: number): number {
  const [mu, p] = [Math.exp(sampled), Math.exp(trained)];
  return mu * (sampled - trained) + (1 - mu) * Math.log((1 - mu + EPSILON) / (1 - p + EPSILON));
}

/** How far a token's probability has moved, from two log-probabilities. */
type Divergence = (sampled: number, trained: number) => number;

const DIVERGENCES: Readonly<Record<LossSettings['dppo']['divergence'], Divergence>> = {
  binary_tv: (sampled, trained) => Math.abs(Math.exp(trained) - Math.exp(sampled)),
  binary_kl: binaryKl,
};

function divergenceOf({ divergence }: LossSettings['dppo']): Divergence {
  if (Object.hasOwn(DIVERGENCES, divergence)) return DIVERGENCES[divergence];
  throw new LossRefused(
    `dppo.divergence: ${String(divergence)} cannot be used; one of ${Object.keys(DIVERGENCES).join(', ')}`,
  );
}

/**
 * −ρ·A, and 0 where the token's probability p has left that of the sampling policy, μ, by more than δ along the sign of A,
 * by total variation |p − μ| or by the binary KL(μ ‖ p); ρ = exp(logprob − rollout) (DPPO: Qi et al. 2026, "Rethinking the
 * Trust Region in LLM Reinforcement Learning"). Where nothing recorded μ, the old policy stands for it.
 * Errors: `LossRefused` for a divergence that there is not.
 */
export const dppo: PolicyLossDefinition = {
  correctable: true,
  terms: (tokens, { dppo: settings }) => {
    const { mask, logprobs, advantages } = tokens;
    const rollout = tokens.rollout ?? tokens.old;
    const { deltaLow, deltaHigh } = settings;
    const divergence = divergenceOf(settings);
    const isOutside = new Uint8Array(mask.length);
    return termsOf(
      mask.length,
      (i) => {
        const [logprob, sampled, advantage] = [at(logprobs, i), at(rollout, i), at(advantages, i)];
        const [ratio, slope] = ratioOf(logprob, sampled);
        const isOutward = advantage > 0 ? logprob > sampled : advantage < 0 && logprob < sampled;
        const outside = isOutward && divergence(sampled, logprob) > (advantage > 0 ? deltaHigh : deltaLow);
        isOutside[i] = Number(outside);
        return outside ? [0, 0] : [-ratio * advantage, -slope * advantage];
      },
      () => ({ clip_ratio: maskedMean(mask, (i) => at(isOutside, i)) }),
    );
  },
};
