/**
 * Off-policy correction by the ratio of the old policy to the sampling policy: outlier mask, token mask, weights,
 * sequence mask, in this order. Each step works on the mask that the step before it returned.
 */

import type { Metrics } from './losses/loss.ts';
import { type Masked, type Values, at, clampedExp, countOf, eachRow, rowCount, sumOver, maskedMean } from './rows.ts';
import { checkCorrection, isCorrecting, masksOutliers, masksTokens } from './off-policy-settings.ts';
import type { OffPolicySettings } from '../../protocol/algorithm.ts';

/** Tokens with the ratio of the old policy to the sampling policy. */
interface RatioTokens extends Masked {
  /** old − rollout. */
  readonly logRatios: Float64Array;
  /** exp(logRatios), clamped to e^±20. */
  readonly ratios: Float64Array;
}

/**
 * Statistics of the ratios before masking. The mean is over the tokens that count. The standard deviation (unbiased),
 * the maximum and the minimum are of ratio · mask over all tokens, as in SkyRL: padding is read as 0.
 */
function ratioStatistics(ratios: Float64Array, mask: Values): Metrics {
  const masked = ratios.map((ratio, i) => ratio * at(mask, i));
  const count = masked.length;
  if (count === 0) return {};
  const mean = masked.reduce((sum, x) => sum + x, 0) / count;
  const squares = masked.reduce((sum, x) => sum + (x - mean) ** 2, 0);
  return {
    is_ratio_mean: maskedMean(mask, (i) => at(ratios, i)),
    ...(count > 1 && { is_ratio_std: Math.sqrt(squares / (count - 1)) }),
    is_ratio_max: masked.reduce((most, x) => Math.max(most, x), -Infinity),
    is_ratio_min: masked.reduce((least, x) => Math.min(least, x), Infinity),
  };
}

/** Result of one masking step. A step only removes tokens. */
interface MaskStep {
  readonly mask: Values;
  readonly metrics: Metrics;
}

/** Masks the sequences that `judge` finds above or below. The metrics, named by `name`, are shares of all sequences. */
function maskSequences(
  tokens: RatioTokens,
  name: string,
  judge: (from: number, to: number) => { above: boolean; below: boolean },
): MaskStep {
  const mask = Float64Array.from(tokens.mask);
  const counts = { masked: 0, above: 0, below: 0 };
  eachRow(tokens.starts, (_, from, to) => {
    const { above, below } = judge(from, to);
    counts.above += Number(above);
    counts.below += Number(below);
    if (!above && !below) return;
    counts.masked += 1;
    mask.fill(0, from, to);
  });
  const rows = Math.max(1, rowCount(tokens.starts));
  const metrics = {
    [`${name}_masked_ratio`]: counts.masked / rows,
    [`${name}_over_high_ratio`]: counts.above / rows,
    [`${name}_under_low_ratio`]: counts.below / rows,
  };
  return { mask, metrics };
}

/** Masks every sequence that has a token that counts with a ratio outside of the bounds. */
function outlierMask(
  tokens: RatioTokens,
  { outlierTokenIsThresholdLow = -Infinity, outlierTokenIsThresholdHigh = Infinity }: OffPolicySettings,
): MaskStep {
  const any = (from: number, to: number, outside: (ratio: number) => boolean): boolean =>
    sumOver(from, to, (i) => Number(at(tokens.mask, i) > 0 && outside(at(tokens.ratios, i)))) > 0;
  return maskSequences(tokens, 'outlier_seq', (from, to) => ({
    above: any(from, to, (ratio) => ratio > outlierTokenIsThresholdHigh),
    below: any(from, to, (ratio) => ratio < outlierTokenIsThresholdLow),
  }));
}

/** Masks every token whose ratio is outside of the bounds. */
function tokenMask(
  { mask: before, ratios }: RatioTokens,
  { tokenMaskIsThresholdLow = -Infinity, tokenMaskIsThresholdHigh = Infinity }: OffPolicySettings,
): MaskStep {
  const inside = (i: number): boolean =>
    at(ratios, i) >= tokenMaskIsThresholdLow && at(ratios, i) <= tokenMaskIsThresholdHigh;
  const mask = Float64Array.from(before, (counts, i) => (inside(i) ? counts : 0));
  const count = countOf(before);
  return { mask, metrics: { token_mask_ratio: (count - countOf(mask)) / Math.max(1, count) } };
}

/** Masks every sequence whose ratio (geometric mean or product of its tokens' ratios) is outside of the bounds. */
function sequenceMask(tokens: RatioTokens, settings: OffPolicySettings): MaskStep {
  const geometric = settings.sequenceMaskMetric === 'geometric';
  const [low, high] = geometric
    ? [settings.geoMaskLow, settings.geoMaskHigh]
    : [settings.productMaskLow, settings.productMaskHigh];
  return maskSequences(tokens, geometric ? 'geo_sequence_mask' : 'product_sequence_mask', (from, to) => {
    const sum = sumOver(from, to, (i) => at(tokens.logRatios, i) * at(tokens.mask, i));
    const ratio = clampedExp(geometric ? sum / Math.max(1, countOf(tokens.mask, from, to)) : sum);
    return { above: ratio > high, below: ratio < low };
  });
}

interface TisWeights {
  /** One per token; with `sequence`, all tokens of a sequence have the same weight. */
  readonly weights: Float64Array;
  /** Share of the tokens that count, or of the sequences, whose ratio was clipped. */
  readonly metrics: Metrics;
}

/**
 * min(ratio, cap): per token, or of the product over a sequence's tokens that count (Espeholt et al. 2018, §4.1, ρ̄).
 */
function tisWeights(
  { starts, mask, ratios, logRatios }: RatioTokens,
  settings: OffPolicySettings,
): TisWeights | undefined {
  const { tisRatioType, tokenTisRatioClipHigh, sequenceTisRatioClipHigh } = settings;
  if (tisRatioType === 'none') return undefined;
  if (tisRatioType === 'token') {
    const cut = sumOver(0, mask.length, (i) => Number(at(ratios, i) > tokenTisRatioClipHigh && at(mask, i) > 0));
    return {
      weights: ratios.map((ratio) => Math.min(ratio, tokenTisRatioClipHigh)),
      metrics: { tis_token_clip_high_ratio: cut / Math.max(1, countOf(mask)) },
    };
  }
  const weights = new Float64Array(mask.length);
  let cut = 0;
  eachRow(starts, (_, from, to) => {
    const ratio = clampedExp(sumOver(from, to, (i) => at(logRatios, i) * at(mask, i)));
    cut += Number(ratio > sequenceTisRatioClipHigh);
    weights.fill(Math.min(ratio, sequenceTisRatioClipHigh), from, to);
  });
  return { weights, metrics: { tis_seq_clip_high_ratio: cut / Math.max(1, rowCount(starts)) } };
}

export interface OffPolicyTokens extends Masked {
  /** Log-probabilities of the policy before the update's first step. In nats. */
  readonly old: Values;
  /** Log-probabilities of the policy that sampled. In nats. */
  readonly rollout: Values;
}

export interface Correction {
  /** Factor of each token's loss; absent if the settings ask for no weights. */
  readonly weights?: Float64Array;
  readonly mask: Values;
  readonly metrics: Metrics;
}

/**
 * Sources: TIS: Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training"; sequence
 * masks: Liu et al. 2025, "When Speed Kills Stability"; the order is SkyRL's. Errors: `BadCorrection`.
 */
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
