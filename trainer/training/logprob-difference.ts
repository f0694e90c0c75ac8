/** How far the log-probabilities that were recorded when sampling are from the trained policy's, by SkyRL's names. */

import type { Sample } from './sample.ts';

/** Of |recorded − trained|, over tokens. */
export interface Differences {
  readonly count: number;
  readonly sum: number;
  readonly squares: number;
  readonly max: number;
  readonly min: number;
}

/** Where the policy is the one that the update begins with. */
export const ROLLOUT_TRAIN = 'policy/rollout_train_logprobs_abs_diff';
/** Of all passes, where it has moved meanwhile. */
export const MINIBATCH = 'policy/minibatch_rollout_logprobs_abs_diff';

/** Mean, deviation (unbiased) and extremes, each as `NAME_…`; nothing without a token. */
export function differenceMetrics(
  name: string,
  { count, sum, squares, max, min }: Differences,
): Record<string, number> {
  if (count === 0) return {};
  const mean = sum / count;
  const variance = count > 1 ? Math.max(0, squares - count * mean ** 2) / (count - 1) : 0;
  return { [`${name}_mean`]: mean, [`${name}_std`]: Math.sqrt(variance), [`${name}_max`]: max, [`${name}_min`]: min };
}

/** Over all tokens of an update whose old log-probabilities were computed anew. */
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
