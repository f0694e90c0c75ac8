/**
 * Dynamic sampling by replacement (POLARIS: An et al. 2025): a batch is drawn whole, and drawn again while too few of its
 * groups vary in reward. Pure.
 */

import type { ReplaceSettings } from '../../../protocol/batch.ts';
import type { SamplingRule } from './dynamic-sampling.ts';

/** The next batch begins where the last one has ended without enough; `varied` is of the one that was drawn last. */
export const untilReplaceable =
  (candidates: number, { groups, minReplaceRatio }: ReplaceSettings): SamplingRule =>
  (counts) => {
    const { begun, ended, varied } = counts;
    const enough = begun > 0 && varied > minReplaceRatio * groups;
    const more = Math.min(groups, candidates - begun);
    return ended < begun || enough || more === 0 ? counts : { begun: begun + more, ended, varied: 0 };
  };
