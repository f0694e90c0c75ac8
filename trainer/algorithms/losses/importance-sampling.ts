/** The policy gradient with an importance weight and nothing that bounds it. */

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
