/** The three masks of off-policy correction: each takes tokens away and gives none back. */

import type { Metrics } from '../losses/loss.ts';
import { type Values, at, clampedExp, countOf, eachRow, rowCount, sumOver } from '../rows.ts';
import type { RatioTokens } from './ratios.ts';
import type { OffPolicySettings } from '../../../protocol/algorithm.ts';

interface MaskStep {
  readonly mask: Values;
  readonly metrics: Metrics;
}

/** Leaves out the sequences that `judge` finds above or below; shares of all sequences under `name`. */
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

/** Leaves out every sequence with a token that counts and whose ratio is outside of the bounds. */
export function outlierMask(
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

/** Leaves out every token whose ratio is outside of the bounds. */
export function tokenMask(
  { mask: before, ratios }: RatioTokens,
  { tokenMaskIsThresholdLow = -Infinity, tokenMaskIsThresholdHigh = Infinity }: OffPolicySettings,
): MaskStep {
  const inside = (i: number): boolean =>
    at(ratios, i) >= tokenMaskIsThresholdLow && at(ratios, i) <= tokenMaskIsThresholdHigh;
  const mask = Float64Array.from(before, (counts, i) => (inside(i) ? counts : 0));
  const count = countOf(before);
  return { mask, metrics: { token_mask_ratio: (count - countOf(mask)) / Math.max(1, count) } };
}

/** Leaves out every sequence whose ratio, the geometric mean or the product of its tokens' ratios, is outside of its range. */
export function sequenceMask(tokens: RatioTokens, settings: OffPolicySettings): MaskStep {
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
