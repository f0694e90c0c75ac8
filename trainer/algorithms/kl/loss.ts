/** The KL term of a loss: its value and gradient over the sequences of a batch. */

import { type Masked, type Values, at, countOf, eachRow } from '../rows.ts';
import { klEstimate } from './estimate.ts';
import type { KlEstimator } from '../../../protocol/algorithm.ts';

export interface KlTokens extends Masked {
  readonly logprobs: Values;
  readonly reference: Values;
}

/**
 * Σ over sequences of each one's mean over the tokens that count, divided by `sequences`: the mean over the sequences of a
 * minibatch, when the values of its micro-batches are added. A sequence without a token that counts adds 0.
 */
export function klLoss(
  tokens: KlTokens,
  kind: KlEstimator,
  sequences: number,
): { value: number; gradient: Float64Array } {
  const gradient = new Float64Array(tokens.mask.length);
  let value = 0;
  eachRow(tokens.starts, (_, from, to) => {
    const share = 1 / (Math.max(1, countOf(tokens.mask, from, to)) * sequences);
    for (let i = from; i < to; i++) {
      if (at(tokens.mask, i) === 0) continue;
      const { kl, slope } = klEstimate(kind, at(tokens.logprobs, i), at(tokens.reference, i));
      value += kl * share;
      gradient[i] = slope * share;
    }
  });
  return { value, gradient };
}
