/** Normalisation of advantages over a whole batch: mean 0 and deviation 1 where tokens count. */

import { type Values, at, maskedMean, sumOver } from '../rows.ts';

/**
 * (A − mean) / √max(var, 1e-8): the mean over all entries that are given, padding as 0 where there is some; var is the mean
 * square distance from it over the tokens that count (SkyRL's `advantage_batch_normalize`).
 */
export function normaliseAdvantages(advantages: Values, mask: Values): Float64Array {
  const mean = sumOver(0, mask.length, (i) => at(advantages, i)) / Math.max(1, mask.length);
  const variance = maskedMean(mask, (i) => (at(advantages, i) - mean) ** 2);
  const scale = 1 / Math.sqrt(Math.max(variance, 1e-8));
  return Float64Array.from(advantages, (advantage) => (advantage - mean) * scale);
}
