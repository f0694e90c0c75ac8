/** KL-Cov: a policy gradient whose tokens of the largest covariance are held back by a KL penalty. */

import { at } from '../rows.ts';
import { covariances } from './covariance.ts';
import { largest } from './largest.ts';
import { type PolicyLossDefinition, type PolicyTokens, termsOf } from './loss.ts';

/** 1 for each of the max(1, ⌊fraction · tokens⌋) tokens with the largest covariance. */
function held(tokens: PolicyTokens, fraction: number): Uint8Array {
  const all = covariances(tokens);
  const counted = [...all.keys()].filter((i) => at(tokens.mask, i) > 0);
  const out = new Uint8Array(all.length);
  for (const i of largest(all, counted, Math.max(1, Math.floor(counted.length * fraction)))) out[i] = 1;
  return out;
}

/**
 * −ρA, plus coefficient · |logprob − old| for the chosen tokens (Cui et al. 2025, "The Entropy Mechanism of Reinforcement
 * Learning", eq. 13 and 14). The covariance is taken over the tokens of a pass.
 */
export const klCov: PolicyLossDefinition = {
  correctable: false,
  terms: (tokens, { klCov: { fraction, coefficient } }) => {
    const { mask, logprobs, old, advantages } = tokens;
    const isHeld = held(tokens, fraction);
    return termsOf(
      mask.length,
      (i) => {
        const difference = at(logprobs, i) - at(old, i);
        const plain = -Math.exp(difference) * at(advantages, i);
        const weight = isHeld[i] === 1 ? coefficient : 0;
        return [plain + weight * Math.abs(difference), plain + weight * Math.sign(difference)];
      },
      () => ({ clip_ratio: 0 }),
    );
  },
};
