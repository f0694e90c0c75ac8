/** GSPO: one ratio for a whole sequence, the geometric mean of its tokens' ratios, clipped as PPO clips a token's. */

import { at, eachRow, maskedMean } from '../rows.ts';
import { type PolicyLossDefinition, termsOf } from './loss.ts';
import { clipped } from './ppo.ts';

/** Upper bound of a sequence's mean log-ratio, so that no ratio overflows. */
const MAX_MEAN_LOG_RATIO = 10;

/**
 * GSPO-token: log s_t = sg(mean over the sequence of logprob − old) + logprob_t − sg(logprob_t), then PPO's clipped
 * loss with s_t as the ratio (Zheng et al. 2025, eq. 14 and 15). The derivative with respect to a token's
 * log-probability is through its own s_t.
 */
export const gspo: PolicyLossDefinition = {
  correctable: true,
  terms: ({ starts, mask, logprobs, old, advantages }, settings) => {
    const [ratios, slopes] = [new Float64Array(mask.length), new Float64Array(mask.length)];
    eachRow(starts, (_, from, to) => {
      const mean = maskedMean(mask, (i) => at(logprobs, i) - at(old, i), from, to);
      const ratio = Math.exp(Math.min(MAX_MEAN_LOG_RATIO, mean));
      ratios.fill(ratio, from, to);
      slopes.fill(mean > MAX_MEAN_LOG_RATIO ? 0 : ratio, from, to);
    });
    const isClipped = new Uint8Array(mask.length);
    return termsOf(
      mask.length,
      (i) => {
        const [value, slope, outside] = clipped(at(ratios, i), at(slopes, i), at(advantages, i), settings);
        isClipped[i] = outside;
        return [value, slope];
      },
      () => ({ clip_ratio: maskedMean(mask, (i) => at(isClipped, i)) }),
    );
  },
};
