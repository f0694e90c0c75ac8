/** Tinker's losses other than PPO: unclipped importance sampling, and cross entropy, which ignores advantages. */

import { at, maskedMean } from '../rows.ts';
import { type PolicyLossDefinition, termsOf } from './loss.ts';

/** −exp(logprob − old) · A (Tinker's `importance_sampling`). */
export const importanceSampling: PolicyLossDefinition = {
  correctable: false,
  terms: ({ mask, logprobs, old, advantages }) => {
    const ratio = (i: number): number => Math.exp(at(logprobs, i) - at(old, i));
    return termsOf(
      mask.length,
      (i) => {
        const weighted = -ratio(i) * at(advantages, i);
        return [weighted, weighted];
      },
      () => ({ importance_ratio: maskedMean(mask, ratio) }),
    );
  },
};

/** −logprob, summed as in Tinker's `cross_entropy`: neither advantages nor a reduction scale it. */
export const crossEntropy: PolicyLossDefinition = {
  correctable: false,
  terms: ({ mask, logprobs }) =>
    termsOf(
      mask.length,
      (i) => [-at(logprobs, i), -1],
      () => ({ clip_ratio: 0 }),
    ),
};
