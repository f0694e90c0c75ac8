/** Truncated importance sampling: what another policy sampled counts by how likely the trained one is to say it. */

import type { OffPolicyCorrection } from '../engine.ts';

/** Log-ratios are clamped to ±20 before exp. */
const maxLogRatio = 20;

const ratioOf = (logRatio: number): number => Math.exp(Math.min(maxLogRatio, Math.max(-maxLogRatio, logRatio)));

export interface SampledTokens {
  /** Of the policy at the update's start; nats. */
  readonly old: ArrayLike<number>;
  /** As recorded when sampled. */
  readonly recorded: ArrayLike<number>;
  /** The sequence that each token belongs to. */
  readonly rowOf: ArrayLike<number>;
}

/**
 * min(old / recorded, cap) of each token (decoupled PPO: Hilton et al. 2022, §3; truncated: Yao et al. 2025), or of each
 * sequence: the product over its tokens.
 */
export function importanceWeights({ old, recorded, rowOf }: SampledTokens, correction: OffPolicyCorrection): Float64Array {
  const { tisRatioType, tokenTisRatioClipHigh, sequenceTisRatioClipHigh } = correction;
  const logRatios = Float64Array.from({ length: old.length }, (_, i) => (old[i] ?? 0) - (recorded[i] ?? 0));
  if (tisRatioType === 'none') return logRatios.fill(1);
  if (tisRatioType === 'token') return logRatios.map((logRatio) => Math.min(ratioOf(logRatio), tokenTisRatioClipHigh));
  const ofRow = new Map<number, number>();
  for (const [i, logRatio] of logRatios.entries()) ofRow.set(rowOf[i] ?? 0, (ofRow.get(rowOf[i] ?? 0) ?? 0) + logRatio);
  return logRatios.map((_, i) => Math.min(ratioOf(ofRow.get(rowOf[i] ?? 0) ?? 0), sequenceTisRatioClipHigh));
}
