/** Statistics of a list of numbers, as NumPy computes them: mean, standard deviation (population) and percentile. */

export interface Spread {
  readonly mean: number;
  readonly min: number;
  readonly max: number;
  readonly std: number;
}

/** All zeros for an empty list. */
export function spreadOf(values: readonly number[]): Spread {
  const mean = values.reduce((sum, x) => sum + x, 0) / Math.max(1, values.length);
  const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / Math.max(1, values.length);
  const extreme = (pick: (a: number, b: number) => number): number =>
    values.length === 0 ? 0 : values.reduce((a, b) => pick(a, b));
  return { mean, min: extreme(Math.min), max: extreme(Math.max), std: Math.sqrt(variance) };
}

/** Interpolates linearly between the two nearest values. 0 for an empty list. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = share * Math.max(0, sorted.length - 1);
  const [low = 0, high = low] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]];
  return low + (high - low) * (at - Math.floor(at));
}

/** SkyRL's metrics of times, as `NAME_mean`, `NAME_p90` and `NAME_max`. Empty without times. */
export function timeMetrics(name: string, seconds: readonly number[]): Record<string, number> {
  if (seconds.length === 0) return {};
  const { mean, max } = spreadOf(seconds);
  return { [`${name}_mean`]: mean, [`${name}_p90`]: percentile(seconds, 0.9), [`${name}_max`]: max };
}
