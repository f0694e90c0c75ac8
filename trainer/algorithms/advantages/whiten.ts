/** Whitening over the tokens that count: mean 0 and variance 1 there; the others are shifted and scaled alike. */

import { type Values, at, countOf, maskedMean } from '../rows.ts';

/** A variance of fewer than two tokens. */
export class TooFewTokens extends Error {
  override readonly name = 'TooFewTokens';
}

/**
 * (x − mean) / √(var + 1e-8) with the unbiased variance. Errors: `TooFewTokens` where fewer than two tokens count.
 * Source: `masked_whiten` of TRL and verl; the bias correction is Bessel's.
 */
export function whiten(values: Values, mask: Values): Float64Array {
  const count = countOf(mask);
  if (count < 2) throw new TooFewTokens(`whitening needs two tokens that count, and there are ${count}`);
  const mean = maskedMean(mask, (i) => at(values, i));
  const variance = (maskedMean(mask, (i) => (at(values, i) - mean) ** 2) * count) / (count - 1);
  const scale = 1 / Math.sqrt(variance + 1e-8);
  return Float64Array.from(values, (x) => (x - mean) * scale);
}
