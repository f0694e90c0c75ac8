/** DPPO: the trust region bounds the change of a token's probability, not the ratio. */

import { at, maskedMean } from '../rows.ts';
import { LossRefused, type PolicyLossDefinition, termsOf } from './loss.ts';
import { ratioOf } from './ppo.ts';
import type { LossSettings } from '../../../protocol/algorithm.ts';

/** Keeps the logarithm finite if a token's probability is almost 1. */
const EPSILON = 1e-8;

/**
 * KL of the Bernoulli distributions "this token, or another", from log-probabilities, so that rare tokens stay exact.
 */
function binaryKl(sampled: number, trained: number): number {
  const [mu, p] = [Math.exp(sampled), Math.exp(trained)];
  return mu * (sampled - trained) + (1 - mu) * Math.log((1 - mu + EPSILON) / (1 - p + EPSILON));
}

/** Distance between two probabilities of a token, given as log-probabilities. */
type Divergence = (sampled: number, trained: number) => number;

const DIVERGENCES: Readonly<Record<LossSettings['dppo']['divergence'], Divergence>> = {
  binary_tv: (sampled, trained) => Math.abs(Math.exp(trained) - Math.exp(sampled)),
  binary_kl: binaryKl,
};

function divergenceOf({ divergence }: LossSettings['dppo']): Divergence {
  if (Object.hasOwn(DIVERGENCES, divergence)) return DIVERGENCES[divergence];
  throw new LossRefused(
    `dppo.divergence: ${String(divergence)} cannot be used; give one of ${Object.keys(DIVERGENCES).join(', ')}`,
  );
}

/**
 * −ρ·A, but 0 if the token's probability p has moved from the sampling policy's μ by more than δ in the direction of
 * A's sign. The distance is the total variation |p − μ| or the binary KL(μ ‖ p); ρ = exp(logprob − rollout) (DPPO: Qi
 * et al. 2026, "Rethinking the Trust Region in LLM Reinforcement Learning"). If μ was not recorded, the old policy
 * replaces it. Errors: `LossRefused` for an unknown divergence.
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
