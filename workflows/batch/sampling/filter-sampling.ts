/**
 * Dynamic sampling by leaving out (DAPO: Yu et al. 2025, §3.2): groups whose rewards are all the same teach nothing, so
 * a batch goes on drawing groups until enough of them vary. Pure.
 */

import type { SamplingRule } from './dynamic-sampling.ts';

/** Groups that are believed to vary before any has ended: one useless group alone says little. */
const PRIOR = 4;

/** Without a number of groups that must vary, all candidates begin at once. */
export const allAtOnce =
  (candidates: number): SamplingRule =>
  (counts) => ({ ...counts, begun: candidates });

/**
 * As many groups run as are needed if they vary as often as those that have ended. At first these are the `wanted` ones,
 * and never fewer run than are still wanted while there are candidates.
 */
export const untilVaried =
  (candidates: number, wanted: number): SamplingRule =>
  ({ begun, ended, varied }) => {
    const rate = (varied + PRIOR) / (ended + PRIOR);
    let needed = begun;
    while (needed < candidates && varied + (needed - ended) * rate < wanted) needed += 1;
    return { begun: needed, ended, varied };
  };
