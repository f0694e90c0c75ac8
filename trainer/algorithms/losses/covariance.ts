/**
 * KL-Cov and Clip-Cov: policy losses that restrain the tokens with the largest covariance of advantage and
 * log-probability, since these make the entropy collapse (Cui et al. 2025, "The Entropy Mechanism of Reinforcement
 * Learning").
 */

import { shuffled } from '../../data/batching.ts';
import { at, countOf, maskedMean } from '../rows.ts';
import { type PolicyLossDefinition, type PolicyTokens, termsOf } from './loss.ts';
import { clipped } from './ppo.ts';
import type { LossSettings } from '../../../protocol/algorithm.ts';
import { largest } from './largest.ts';

/** (A − mean A)(logprob − mean logprob) per token; the means are over the tokens that count (eq. 10). */
function covariances({ mask, advantages, logprobs }: PolicyTokens): Float64Array {
  const advantage = maskedMean(mask, (i) => at(advantages, i));
  const logprob = maskedMean(mask, (i) => at(logprobs, i));
  return Float64Array.from(mask, (_, i) => (at(advantages, i) - advantage) * (at(logprobs, i) - logprob));
}

/** 1 for each of the max(1, ⌊fraction · tokens⌋) tokens with the largest covariance. */
function held(tokens: PolicyTokens, fraction: number): Uint8Array {
  const all = covariances(tokens);
  const counted = [...all.keys()].filter((i) => at(tokens.mask, i) > 0);
  const out = new Uint8Array(all.length);
  for (const i of largest(all, counted, Math.max(1, Math.floor(counted.length * fraction)))) out[i] = 1;
  return out;
}

/**
 * −ρA, plus coefficient · |logprob − old| for the chosen tokens (eq. 13 and 14). The covariance is over the tokens of a
 * pass.
 */
export const klCov: PolicyLossDefinition = {
  correctable: false,
  terms: (tokens, { klCov: { fraction, coefficient } }) => {
    const { mask, logprobs, old, advantages } = tokens;
    const isHeld = held(tokens, fraction);
    return termsOf(
      mask.length,
      (i) => {
        const difference = at(logprobs, i) - at(old, i);
        const plain = -Math.exp(difference) * at(advantages, i);
        const weight = isHeld[i] === 1 ? coefficient : 0;
        return [plain + weight * Math.abs(difference), plain + weight * Math.sign(difference)];
      },
      () => ({ clip_ratio: 0 }),
    );
  },
};

/** 1 for each token whose loss is set to 0. */
function leftOut(
  tokens: PolicyTokens,
  isClipped: (i: number) => boolean,
  { clipCov, noiseKey }: LossSettings,
): Uint8Array {
  const { mask } = tokens;
  const candidates = [...covariances(tokens).entries()].flatMap(([i, cov]) =>
    at(mask, i) > 0 && !isClipped(i) && cov > clipCov.lowerBound && cov < clipCov.upperBound ? [i] : [],
  );
  const count = Math.max(1, Math.floor(clipCov.ratio * countOf(mask)));
  const out = new Uint8Array(mask.length);
  for (const pick of shuffled(candidates.length, `clip_cov ${noiseKey ?? ''}`).slice(0, count))
    out[candidates[pick] ?? 0] = 1;
  return out;
}

/**
 * max(−ρA, −clip(ρ)·A), but 0 for max(1, ⌊ratio · tokens⌋) tokens. These are drawn from the tokens that PPO does not
 * clip and whose covariance lies between the bounds (eq. 11 and 12). The covariance is over the tokens of a pass;
 * `noiseKey` is the seed of the draw.
 */
export const clipCov: PolicyLossDefinition = {
  correctable: false,
  terms: (tokens, settings) => {
    const { mask, logprobs, old, advantages } = tokens;
    const termOf = (i: number): readonly [number, number, number] => {
      const ratio = Math.exp(at(logprobs, i) - at(old, i));
      return clipped(ratio, ratio, at(advantages, i), settings);
    };
    const out = leftOut(tokens, (i) => termOf(i)[2] === 1, settings);
    return termsOf(
      mask.length,
      (i) => {
        const [value, slope] = termOf(i);
        return out[i] === 1 ? [0, 0] : [value, slope];
      },
      () => ({ clip_ratio: maskedMean(mask, (i) => at(out, i)) }),
    );
  },
};
