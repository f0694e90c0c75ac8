/** Leave-one-out advantages, within one group: each rollout against the mean of the others. */

/**
 * (r − mean) · n / (n − 1), which is r minus the mean of the other rewards (RLOO: Ahmadian et al. 2024, eq. 8; Kool et
 * al. 2019). A group of one has 0.
 */
export function rlooAdvantages(rewards: readonly number[]): number[] {
  const count = rewards.length;
  if (count < 2) return rewards.map(() => 0);
  const mean = rewards.reduce((sum, r) => sum + r, 0) / count;
  return rewards.map((r) => ((r - mean) * count) / (count - 1));
}
