/** Generalised advantages: what a critic's values leave unexplained, whitened over the batch. */

import { type Values, at, eachRow } from '../rows.ts';
import type { TokenAdvantages, TokenRewards } from './estimator.ts';
import { whiten } from './whiten.ts';

/** Advantages that are what a critic's values leave unexplained, without a critic. */
export class NoValues extends Error {
  override readonly name = 'NoValues';
}

/** Errors: `NoValues` where no critic gave any. */
export function valuesOf({ values }: TokenRewards): Values {
  if (values === undefined) throw new NoValues('gae needs the values of a critic: give `critic`');
  return values;
}

/**
 * δ_t = r_t + γ·V_{t+1} − V_t with V = 0 after the end, A_t = δ_t + γλ·A_{t+1} (GAE: Schulman et al. 2016, eq. 11 and 16);
 * returns = A + V, then A is whitened over the tokens that count and stays as it is at the others. Errors: `TooFewTokens`.
 */
export function gaeAdvantages(
  { starts, mask, rewards }: TokenRewards,
  values: Values,
  { gamma, lambda }: { readonly gamma: number; readonly lambda: number },
): TokenAdvantages {
  const advantages = new Float64Array(mask.length);
  eachRow(starts, (_, from, to) => {
    let [next, running] = [0, 0];
    for (let i = to - 1; i >= from; i--) {
      running = at(rewards, i) + gamma * next - at(values, i) + gamma * lambda * running;
      advantages[i] = running;
      next = at(values, i);
    }
  });
  return { advantages: whiten(advantages, mask), returns: advantages.map((advantage, i) => advantage + at(values, i)) };
}
