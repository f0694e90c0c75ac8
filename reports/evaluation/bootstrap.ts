/**
 * A mean over tasks with its bootstrap interval. Whole tasks are resampled, never single rollouts, since the tasks are
 * the sample. The same values, name and settings give the same interval on any machine.
 */

import { createRandom } from '../../tasks/random.ts';
import type { BootstrapSettings, Estimate } from '../../protocol/eval.ts';

/** The value at `share` of a sorted list, linearly interpolated. */
function quantile(sorted: Float64Array, share: number): number {
  const at = share * (sorted.length - 1);
  const below = sorted[Math.floor(at)] ?? Number.NaN;
  const above = sorted[Math.ceil(at)] ?? Number.NaN;
  return below + (above - below) * (at - Math.floor(at));
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/**
 * The percentile interval (Efron and Tibshirani 1993, chapter 13). Its width is 0 if all tasks have equal values, and
 * it is too narrow for fewer than about twenty tasks, since it only represents the tasks that were drawn.
 * `name` seeds the draws. Returns `null` without values.
 */
export function bootstrapMean(
  values: readonly number[],
  name: string,
  { resamples, confidence }: BootstrapSettings,
): Estimate | null {
  if (values.length === 0) return null;
  const random = createRandom(name);
  const means = new Float64Array(resamples);
  for (let i = 0; i < resamples; i += 1) {
    let sum = 0;
    for (let drawn = 0; drawn < values.length; drawn += 1) sum += values[random.integer(0, values.length - 1)] ?? 0;
    means[i] = sum / values.length;
  }
  means.sort();
  const tail = (1 - confidence) / 2;
  return { mean: mean(values), low: quantile(means, tail), high: quantile(means, 1 - tail) };
}
