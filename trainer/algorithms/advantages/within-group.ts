/** Advantages within one group of rollouts of a task: GRPO, RLOO and MaxRL. They depend on that group alone. */

export interface GrpoOptions {
  /** Divide by the group's standard deviation. Off: Dr. GRPO (Liu et al. 2025, §3.2). */
  readonly normaliseByStd: boolean;
  readonly epsilon?: number;
}

/**
 * (r − mean) / (std + ε) with the unbiased standard deviation (GRPO: Shao et al. 2024, §4.1.2). For a group of one
 * the mean is 0 and the deviation 1; such a group has no baseline, and callers drop it.
 */
export function grpoAdvantages(rewards: readonly number[], { normaliseByStd, epsilon = 1e-6 }: GrpoOptions): number[] {
  const count = rewards.length;
  const alone = count < 2;
  const mean = alone ? 0 : rewards.reduce((sum, r) => sum + r, 0) / count;
  const variance = rewards.reduce((sum, r) => sum + (r - mean) ** 2, 0) / (count - 1);
  const scale = normaliseByStd ? (alone ? 1 : Math.sqrt(variance)) + epsilon : 1;
  return rewards.map((r) => (r - mean) / scale);
}

/**
 * One advantage per score; `scores[i]` belongs to the group `groups[i]`. Errors: `RangeError` if `estimate` returns
 * another number of advantages than it was given rewards.
 */
export function advantagesByGroup(
  scores: readonly number[],
  groups: readonly string[],
  estimate: (rewards: readonly number[]) => readonly number[],
): number[] {
  const members = new Map<string, number[]>();
  for (const [i, group] of groups.entries()) members.set(group, [...(members.get(group) ?? []), i]);
  const advantages = scores.map(() => 0);
  for (const [group, rows] of members) {
    const estimated = estimate(rows.map((row) => scores[row] ?? 0));
    if (estimated.length !== rows.length)
      throw new RangeError(`${estimated.length} advantages for the ${rows.length} rewards of ${group}`);
    for (const [i, row] of rows.entries()) advantages[row] = estimated[i] ?? 0;
  }
  return advantages;
}

/**
 * (r − mean) · n / (n − 1), which equals r minus the mean of the other rewards (RLOO: Ahmadian et al. 2024, eq. 8; Kool
 * et al. 2019). A group of one gets 0.
 */
export function rlooAdvantages(rewards: readonly number[]): number[] {
  const count = rewards.length;
  if (count < 2) return rewards.map(() => 0);
  const mean = rewards.reduce((sum, r) => sum + r, 0) / count;
  return rewards.map((r) => ((r - mean) * count) / (count - 1));
}

/**
 * (r − mean) / (mean + ε) (MaxRL: Tajwar et al. 2026, "Maximum Likelihood Reinforcement Learning": with rewards of 0
 * and 1 the mean is the pass rate). A group of one keeps its reward.
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
