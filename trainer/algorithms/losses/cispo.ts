/** CISPO: REINFORCE with a clipped ratio as a constant weight, so that no token loses its gradient. */

import { at, clamp, clampedExp, countOf, maskedMean } from '../rows.ts';
import { LossRefused, type Metrics, type PolicyLossDefinition, type PolicyTokens, rolloutOf, termsOf } from './loss.ts';
import type { LossSettings } from '../../../protocol/algorithm.ts';

/** Maximum and minimum are over the tokens that count, or over all tokens if none counts. */
function metricsOf(mask: PolicyTokens['mask'], ratios: Float64Array, low: number, high: number): Metrics {
  const some = countOf(mask) > 0;
  const counted = some ? ratios.filter((_, i) => at(mask, i) > 0) : ratios;
  return {
    clip_ratio: maskedMean(mask, (i) => Number(at(ratios, i) < low || at(ratios, i) > high)),
    'cispo/ratio_mean': maskedMean(mask, (i) => at(ratios, i)),
    'cispo/ratio_clamped_mean': maskedMean(mask, (i) => clamp(at(ratios, i), low, high)),
    'cispo/ratio_max': counted.reduce((most, x) => Math.max(most, x), -Infinity),
    'cispo/ratio_min': counted.reduce((least, x) => Math.min(least, x), Infinity),
  };
}

/**
 * −A · sg(clip(ρ, 1 − low, 1 + high)) · logprob (MiniMax-M1: Chen et al. 2025, eq. 4 and 5). ρ is relative to the old
 * policy, or to the sampling policy (`anchor`: `rollout`). With `rollout`, the weights of an off-policy correction
 * would count the same difference twice; its masks would not. Errors: `LossRefused` for `rollout` with such weights, or
 * without recorded log-probabilities.
 */
export const cispo: PolicyLossDefinition = {
  correctable: true,
  needsRollout: ({ cispo: { anchor } }: LossSettings) => anchor === 'rollout',
  terms: (tokens, { cispo: { clipLow, clipHigh, anchor }, offPolicyCorrection }) => {
    if (anchor === 'rollout' && (offPolicyCorrection?.tisRatioType ?? 'none') !== 'none')
      throw new LossRefused(
        'cispo with anchor rollout has importance weights already: ' +
          'set algorithm.offPolicyCorrection.tisRatioType to none, or algorithm.cispo.anchor to old',
      );
    const against = anchor === 'rollout' ? rolloutOf(tokens, 'cispo with anchor rollout') : tokens.old;
    const { mask, logprobs, advantages } = tokens;
    const ratios = Float64Array.from(mask, (_, i) => clampedExp(at(logprobs, i) - at(against, i)));
    const [low, high] = [1 - clipLow, 1 + clipHigh];
    return termsOf(
      mask.length,
      (i) => {
        const weight = -at(advantages, i) * clamp(at(ratios, i), low, high);
        return [weight * at(logprobs, i), weight];
      },
      () => metricsOf(mask, ratios, low, high),
    );
  },
};
