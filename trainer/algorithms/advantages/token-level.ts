/** Advantages per token, whitened over the batch: from a critic's values (GAE), or from returns alone (REINFORCE++). */

import { at, eachRow, type Values, countOf, maskedMean } from '../rows.ts';
import type { TokenAdvantages, TokenRewards } from './estimator.ts';

/** Whitening needs at least two tokens that count. */
export class TooFewTokens extends Error {
  override readonly name = 'TooFewTokens';
}

/**
 * (x − mean) / √(var + 1e-8) with the unbiased variance. Errors: `TooFewTokens` if fewer than two tokens count.
 * Source: `masked_whiten` of TRL and verl; the bias correction is Bessel's.
 */
function whiten(values: Values, mask: Values): Float64Array {
  const count = countOf(mask);
  if (count < 2) throw new TooFewTokens(`whitening needs at least two tokens that count; the batch has ${count}`);
  const mean = maskedMean(mask, (i) => at(values, i));
  const variance = (maskedMean(mask, (i) => (at(values, i) - mean) ** 2) * count) / (count - 1);
  const scale = 1 / Math.sqrt(variance + 1e-8);
  return Float64Array.from(values, (x) => (x - mean) * scale);
}

/** GAE without a critic. */
export class NoValues extends Error {
  override readonly name = 'NoValues';
}

/** Errors: `NoValues` without a critic. */
export function valuesOf({ values }: TokenRewards): Values {
  if (values === undefined) throw new NoValues('gae needs the values of a critic: set algorithm.critic');
  return values;
}

/**
 * δ_t = r_t + γ·V_{t+1} − V_t with V = 0 after the end, A_t = δ_t + γλ·A_{t+1} (GAE: Schulman et al. 2016, eq. 11 and
 * 16); returns = A + V. Then A is whitened by mean and variance of the tokens that count; the other tokens are scaled
 * alike, not set to 0. Errors: `TooFewTokens`.
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

/**
 * G_t = r_t + γ·m_{t+1}·G_{t+1}, m the mask: returns do not cross tokens that do not count. Whitened over the tokens
 * that count, 0 at the others (REINFORCE++: Hu et al. 2025, eq. 4 and 5). Errors: `TooFewTokens`.
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
