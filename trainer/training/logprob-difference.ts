/** Differences between log-probabilities recorded when sampling and the trained policy's; metric names are SkyRL's. */

import type { Sample } from './sample.ts';

/** Sums and extremes of |recorded − trained| over tokens. */
export interface Differences {
  readonly count: number;
  readonly sum: number;
  readonly squares: number;
  readonly max: number;
  readonly min: number;
}

/** Differences before the update's first step. */
export const ROLLOUT_TRAIN = 'policy/rollout_train_logprobs_abs_diff';
/** Differences over all passes, after steps of the same update too. */
export const MINIBATCH = 'policy/minibatch_rollout_logprobs_abs_diff';

/** Mean, standard deviation (unbiased) and extremes, each as `NAME_…`; empty without a token. */
export function differenceMetrics(
  name: string,
  { count, sum, squares, max, min }: Differences,
): Record<string, number> {
  if (count === 0) return {};
  const mean = sum / count;
  const variance = count > 1 ? Math.max(0, squares - count * mean ** 2) / (count - 1) : 0;
  return { [`${name}_mean`]: mean, [`${name}_std`]: Math.sqrt(variance), [`${name}_max`]: max, [`${name}_min`]: min };
}

/** Over all tokens of an update that recomputes the old log-probabilities. */
export function recordedDifferences(samples: readonly Sample[]): Differences {
  let [count, sum, squares, max, min] = [0, 0, 0, 0, Infinity];
  for (const { recorded, old } of samples) {
    for (const [i, logprob] of recorded.entries()) {
      const difference = Math.abs(logprob - (old[i] ?? 0));
      count += 1;
      sum += difference;
      squares += difference ** 2;
      max = Math.max(max, difference);
      min = Math.min(min, difference);
    }
  }
  return { count, sum, squares, max, min };
}
