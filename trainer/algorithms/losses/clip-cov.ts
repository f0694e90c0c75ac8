/** Clip-Cov: PPO's loss without some tokens, drawn among those that would lower the entropy most. */

import { shuffled } from '../../data/batching.ts';
import { at, countOf, maskedMean } from '../rows.ts';
import { covariances } from './covariance.ts';
import { type PolicyLossDefinition, type PolicyTokens, termsOf } from './loss.ts';
import { clipped } from './ppo.ts';
import type { LossSettings } from '../../../protocol/algorithm.ts';

/** 1 for each token that is left out. */
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
 * max(−ρA, −clip(ρ)·A), and 0 for max(1, ⌊ratio · tokens⌋ tokens drawn among those that PPO does not clip and whose
 * covariance lies between the bounds (Cui et al. 2025, "The Entropy Mechanism of Reinforcement Learning", eq. 11 and 12).
 * The covariance is taken over the tokens of a pass, the draw is named by `noiseKey`.
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
