/** Truncated importance sampling: weights by the ratio of old policy to sampling policy, bounded above. */

import type { Metrics } from '../losses/loss.ts';
import { at, clampedExp, countOf, eachRow, rowCount, sumOver } from '../rows.ts';
import type { RatioTokens } from './ratios.ts';
import type { OffPolicySettings } from '../../../protocol/algorithm.ts';

export interface TisWeights {
  /** One for each token; in `sequence` all of a sequence are the same. */
  readonly weights: Float64Array;
  /** Share of the tokens that count, or of the sequences, whose ratio was cut. */
  readonly metrics: Metrics;
}

/** min(ratio, cap) per token, or of the product over a sequence's tokens that count (Espeholt et al. 2018, §4.1, ρ̄). */
export function tisWeights(
  { starts, mask, ratios, logRatios }: RatioTokens,
  settings: OffPolicySettings,
): TisWeights | undefined {
  const { tisRatioType, tokenTisRatioClipHigh, sequenceTisRatioClipHigh } = settings;
  if (tisRatioType === 'none') return undefined;
  if (tisRatioType === 'token') {
    const cut = sumOver(0, mask.length, (i) => Number(at(ratios, i) > tokenTisRatioClipHigh && at(mask, i) > 0));
    return {
      weights: ratios.map((ratio) => Math.min(ratio, tokenTisRatioClipHigh)),
      metrics: { tis_token_clip_high_ratio: cut / Math.max(1, countOf(mask)) },
    };
  }
  const weights = new Float64Array(mask.length);
  let cut = 0;
  eachRow(starts, (_, from, to) => {
    const ratio = clampedExp(sumOver(from, to, (i) => at(logRatios, i) * at(mask, i)));
    cut += Number(ratio > sequenceTisRatioClipHigh);
    weights.fill(Math.min(ratio, sequenceTisRatioClipHigh), from, to);
  });
  return { weights, metrics: { tis_seq_clip_high_ratio: cut / Math.max(1, rowCount(starts)) } };
}
