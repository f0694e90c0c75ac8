/**
 * Off-policy correction by the ratio of the old policy to the one that sampled: outliers, token mask, weights, sequence
 * mask, in this order, each on what the one before left.
 */

import type { Metrics } from '../losses/loss.ts';
import { type Masked, type Values, at, clampedExp } from '../rows.ts';
import { ratioStatistics, type RatioTokens } from './ratios.ts';
import { outlierMask, sequenceMask, tokenMask } from './masks.ts';
import { checkCorrection, isCorrecting, masksOutliers, masksTokens } from './settings.ts';
import type { OffPolicySettings } from '../../../protocol/algorithm.ts';
import { tisWeights } from './tis.ts';

export interface OffPolicyTokens extends Masked {
  /** Of the policy as it was when the update began, and of the one that sampled; nats. */
  readonly old: Values;
  readonly rollout: Values;
}

export interface Correction {
  /** Of each token, for its loss; absent where nothing is weighted. */
  readonly weights?: Float64Array;
  readonly mask: Values;
  readonly metrics: Metrics;
}

/** Sources: TIS: Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training"; sequence masks: Liu et al. 2025, "When Speed Kills Stability"; the order is SkyRL's. Errors: `BadCorrection`. */
export function correctOffPolicy(
  { starts, mask, old, rollout }: OffPolicyTokens,
  settings: OffPolicySettings,
): Correction {
  checkCorrection(settings);
  if (!isCorrecting(settings)) return { mask, metrics: {} };
  const logRatios = Float64Array.from(mask, (_, i) => at(old, i) - at(rollout, i));
  const ratios = logRatios.map(clampedExp);
  const metrics: Record<string, number> = { ...ratioStatistics(ratios, mask) };
  let now: RatioTokens = { starts, mask, logRatios, ratios };
  const apply = (step: { readonly mask: Values; readonly metrics: Metrics }): void => {
    now = { ...now, mask: step.mask };
    Object.assign(metrics, step.metrics);
  };
  if (masksOutliers(settings)) apply(outlierMask(now, settings));
  if (masksTokens(settings)) apply(tokenMask(now, settings));
  const tis = tisWeights(now, settings);
  Object.assign(metrics, tis?.metrics);
  if (settings.sequenceMaskMetric !== 'none') apply(sequenceMask(now, settings));
  return { mask: now.mask, metrics, ...(tis && { weights: tis.weights }) };
}
