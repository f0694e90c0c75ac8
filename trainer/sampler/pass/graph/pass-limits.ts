/**
 * How large a pass may be: oneDNN splits a product over many inputs where there are many rows, and adds the parts in
 * another order. So the rows of every product stay below that.
 */

import type { ModelConfig } from '../../../model/config.ts';

export interface PassLimits {
  /** Sequences decoded together. */
  readonly maxRows: number;
  /** Padded tokens of one pass over prompts. */
  readonly prefillTokens: number;
}

/** From so many inputs on, more rows than `rows` have other bits (measured with AVX2: from 1024 above 64 rows, from 512 above 252). */
const splits = [
  { inputs: 1024, rows: 60 },
  { inputs: 400, rows: 240 },
] as const;

/** `wanted`, or what products of this shape allow. */
export function passLimits(
  { hiddenSize, intermediateSize, heads, headDim }: ModelConfig,
  wanted: PassLimits,
): PassLimits {
  const widest = Math.max(hiddenSize, intermediateSize, heads * headDim);
  const most = splits.find(({ inputs }) => widest >= inputs)?.rows ?? Infinity;
  return { maxRows: Math.min(wanted.maxRows, most), prefillTokens: Math.min(wanted.prefillTokens, most) };
}
