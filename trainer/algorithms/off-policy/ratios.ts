/** Ratios of the old policy to the one that sampled: what masks and weights are made of, and what they are like before these. */

import { type Masked, type Values, at, maskedMean } from '../rows.ts';
import type { Metrics } from '../losses/loss.ts';

/**
 * Mean over the tokens that count; deviation (unbiased), largest and smallest of ratio · mask over all tokens that are
 * given, as SkyRL takes them: padding, where there is some, counts as 0 in these.
 */
export function ratioStatistics(ratios: Float64Array, mask: Values): Metrics {
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

/** Tokens with the ratio of the old policy to the one that sampled. */
export interface RatioTokens extends Masked {
  /** old − rollout. */
  readonly logRatios: Float64Array;
  /** Its exponential, clamped to e^±20. */
  readonly ratios: Float64Array;
}
