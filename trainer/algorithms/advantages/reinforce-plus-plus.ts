/** REINFORCE++: each token's discounted return, whitened over the whole batch; no group and no critic. */

import { at, eachRow } from '../rows.ts';
import type { TokenAdvantages, TokenRewards } from './estimator.ts';
import { whiten } from './whiten.ts';

/**
 * G_t = r_t + γ·G_{t+1}, where what follows a token that does not count is forgotten; whitened over the tokens that count,
 * then 0 at the others (REINFORCE++: Hu et al. 2025, eq. 4 and 5). Errors: `TooFewTokens`.
 */
export function reinforcePlusPlusAdvantages(
  { starts, mask, rewards }: TokenRewards,
  { gamma }: { readonly gamma: number },
): TokenAdvantages {
  const returns = new Float64Array(mask.length);
  eachRow(starts, (_, from, to) => {
    let running = 0;
    for (let i = to - 1; i >= from; i--) {
      running = at(rewards, i) + gamma * running;
      returns[i] = running;
      running *= at(mask, i);
    }
  });
  return { advantages: whiten(returns, mask).map((advantage, i) => advantage * at(mask, i)), returns };
}
