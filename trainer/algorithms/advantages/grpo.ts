/** GRPO's advantages, within one group of rollouts of a task; nothing outside of the group has a part in them. */

export interface GrpoOptions {
  /** Divide by the group's standard deviation. Off: Dr. GRPO (Liu et al. 2025, §3.2). */
  readonly normaliseByStd: boolean;
  readonly epsilon?: number;
}

/**
 * (r − mean) / (std + ε) with the unbiased standard deviation (GRPO: Shao et al. 2024, §4.1.2). A group of one has mean
 * 0 and deviation 1: it has no baseline, and callers leave it out.
 */
export function grpoAdvantages(rewards: readonly number[], { normaliseByStd, epsilon = 1e-6 }: GrpoOptions): number[] {
  const count = rewards.length;
  const alone = count < 2;
  const mean = alone ? 0 : rewards.reduce((sum, r) => sum + r, 0) / count;
  const variance = rewards.reduce((sum, r) => sum + (r - mean) ** 2, 0) / (count - 1);
  const scale = normaliseByStd ? (alone ? 1 : Math.sqrt(variance)) + epsilon : 1;
  return rewards.map((r) => (r - mean) / scale);
}
