/** Maximum-likelihood advantages, within one group: the rarer a success, the more it counts. */

/**
 * (r − mean) / (mean + ε) (MaxRL: Tajwar et al. 2026, "Maximum Likelihood Reinforcement Learning": with rewards of 0 and 1
 * the mean is the pass rate). A group of one keeps its reward.
 */
export function maxrlAdvantages(
  rewards: readonly number[],
  { epsilon = 1e-6 }: { readonly epsilon?: number } = {},
): number[] {
  const count = rewards.length;
  if (count < 2) return [...rewards];
  const mean = rewards.reduce((sum, r) => sum + r, 0) / count;
  return rewards.map((r) => (r - mean) / (mean + epsilon));
}
