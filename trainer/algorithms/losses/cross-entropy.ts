/** Cross-entropy: what was sampled is imitated, whatever its advantage. */

import { at } from '../rows.ts';
import { type PolicyLossDefinition, termsOf } from './loss.ts';

/** −logprob, summed as Tinker's `cross_entropy` sums it: neither advantages nor a reduction scale it. */
export const crossEntropy: PolicyLossDefinition = {
  correctable: false,
  terms: ({ mask, logprobs }) =>
    termsOf(
      mask.length,
      (i) => [-at(logprobs, i), -1],
      () => ({ clip_ratio: 0 }),
    ),
};
