/** The clipped loss of PPO, and dual clipping, which also bounds it for negative advantages. */

import { at, clamp, MAX_LOG_RATIO, maskedMean } from '../rows.ts';
import { type PolicyLossDefinition, type PolicyTokens, type TokenTerms, termsOf } from './loss.ts';
import type { LossSettings } from '../../../protocol/algorithm.ts';

/** [ratio, its derivative by the log-probability]. The ratio is clamped to e^±20; the derivative is 0 beyond. */
export function ratioOf(logprob: number, anchor: number): readonly [number, number] {
  const difference = logprob - anchor;
  const logRatio = clamp(difference, -MAX_LOG_RATIO, MAX_LOG_RATIO);
  const ratio = Math.exp(logRatio);
  return [ratio, logRatio === difference ? ratio : 0];
}

/** [loss, derivative, 1 if the clipped term was the larger one] for a ratio, its derivative and an advantage. */
export function clipped(
  ratio: number,
  slope: number,
  advantage: number,
  { clipLow, clipHigh }: LossSettings,
): readonly [number, number, number] {
  const plain = -ratio * advantage;
  const bounded = -clamp(ratio, 1 - clipLow, 1 + clipHigh) * advantage;
  return bounded > plain ? [bounded, 0, 1] : [plain, -slope * advantage, 0];
}

function ppoTerms(tokens: PolicyTokens, settings: LossSettings, largest: number): TokenTerms {
  const { logprobs, old, advantages, mask } = tokens;
  const isClipped = new Uint8Array(mask.length);
  return termsOf(
    mask.length,
    (i) => {
      const advantage = at(advantages, i);
      const [value, slope, outside] = clipped(...ratioOf(at(logprobs, i), at(old, i)), advantage, settings);
      isClipped[i] = outside;
      const bound = -advantage * largest;
      return advantage < 0 && bound < value ? [bound, 0] : [value, slope];
    },
    () => ({ clip_ratio: maskedMean(mask, (i) => at(isClipped, i)) }),
  );
}

/**
 * −min(ρA, clip(ρ, 1 − low, 1 + high)·A), ρ = exp(logprob − old) (PPO: Schulman et al. 2017, eq. 7; the asymmetric
 * range: DAPO, Yu et al. 2025, eq. 10).
 */
export const regular: PolicyLossDefinition = {
  correctable: true,
  terms: (tokens, settings) => ppoTerms(tokens, settings, Infinity),
};

/** `regular`, bounded above by −c·A if A < 0 (Ye et al. 2020, "Mastering Complex Control in MOBA Games", eq. 5). */
export const dualClip: PolicyLossDefinition = {
  correctable: true,
  terms: (tokens, settings) => ppoTerms(tokens, settings, settings.clipRatioC),
};
