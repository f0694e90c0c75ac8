/** REINFORCE weighted by the ratio to the sampling policy; tokens with a ratio outside of the range get no gradient. */

import { at, clampedExp, maskedMean } from '../rows.ts';
import { type PolicyLossDefinition, rolloutOf, termsOf } from './loss.ts';

/**
 * −A · sg(ρ if 1 − low < ρ < 1 + high, else 0) · logprob with ρ = exp(logprob − rollout): importance sampling with
 * rejection, relative to the recorded log-probabilities, for asynchronous training (SkyRL's `rollout_is`; the
 * rejection: IcePop, Zhao et al. 2025). Errors: `LossRefused` without recorded log-probabilities.
 */
export const rolloutIs: PolicyLossDefinition = {
  correctable: true,
  needsRollout: () => true,
  terms: (tokens, { clipLow, clipHigh }) => {
    const { mask, logprobs, advantages } = tokens;
    const rollout = rolloutOf(tokens, 'rollout_is');
    const isOutside = new Uint8Array(mask.length);
    return termsOf(
      mask.length,
      (i) => {
        const ratio = clampedExp(at(logprobs, i) - at(rollout, i));
        const outside = !(ratio > 1 - clipLow && ratio < 1 + clipHigh);
        isOutside[i] = Number(outside);
        const weight = outside ? 0 : -ratio * at(advantages, i);
        return [weight * at(logprobs, i), weight];
      },
      () => ({ clip_ratio: maskedMean(mask, (i) => at(isOutside, i)) }),
    );
  },
};
