/**
 * The loss of a critic: the squared error of the value, or of the value clipped near its old one, whichever is larger.
 */

import { type Masked, type Values, at, clamp, countOf, eachRow, maskedMean, rowCount } from './rows.ts';

export interface CriticTokens extends Masked {
  readonly values: Values;
  /** Values before the update's first step. */
  readonly old: Values;
  readonly returns: Values;
}

export interface CriticLoss {
  readonly loss: number;
  /** d loss / d values. */
  readonly gradient: Float64Array;
  /** Share of the tokens that count where the clipped error was the larger one. */
  readonly clipFraction: number;
}

/**
 * ½ · mean over sequences of each one's mean over the tokens that count of max((V − R)², (clip(V, V_old ± clip) − R)²)
 * (PPO's value clipping: Schulman et al. 2017, implementation of OpenAI Baselines). `clip` = Infinity: no clipping.
 */
export function criticLoss(tokens: CriticTokens, clip: number): CriticLoss {
  const { starts, mask, values, old, returns } = tokens;
  const gradient = new Float64Array(mask.length);
  const isClipped = new Uint8Array(mask.length);
  const rows = Math.max(1, rowCount(starts));
  let loss = 0;
  eachRow(starts, (_, from, to) => {
    const share = 1 / (Math.max(1, countOf(mask, from, to)) * rows);
    for (let i = from; i < to; i++) {
      const change = at(values, i) - at(old, i);
      const plain = at(values, i) - at(returns, i);
      const held = at(old, i) + clamp(change, -clip, clip) - at(returns, i);
      isClipped[i] = Number(held ** 2 > plain ** 2);
      const weight = at(mask, i) * share;
      loss += 0.5 * weight * Math.max(held ** 2, plain ** 2);
      gradient[i] = weight * (held ** 2 > plain ** 2 ? (Math.abs(change) <= clip ? held : 0) : plain);
    }
  });
  return { loss, gradient, clipFraction: maskedMean(mask, (i) => at(isClipped, i)) };
}
