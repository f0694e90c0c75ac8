/**
 * How large a pass may be. If a product has many inputs and many rows, oneDNN splits it and adds the parts in another
 * order. So the number of rows of every product stays below that.
 */

import type { ModelConfig } from '../../../model/config.ts';

export interface PassLimits {
  /** Sequences decoded together. */
  readonly maxRows: number;
  /** Padded tokens of one pass over prompts. */
  readonly prefillTokens: number;
}

/**
 * Products of `inputs` or more inputs may get other bits above `rows` rows. Measured with AVX2: with 1024 inputs above
 * 64 rows, with 512 inputs above 252 rows.
 */
const splits = [
  { inputs: 1024, rows: 60 },
  { inputs: 400, rows: 240 },
] as const;

/** `wanted`, reduced to what products of this shape allow. */
export function passLimits(
  { hiddenSize, intermediateSize, heads, headDim }: ModelConfig,
  wanted: PassLimits,
): PassLimits {
  const widest = Math.max(hiddenSize, intermediateSize, heads * headDim);
  const most = splits.find(({ inputs }) => widest >= inputs)?.rows ?? Infinity;
  return { maxRows: Math.min(wanted.maxRows, most), prefillTokens: Math.min(wanted.prefillTokens, most) };
}
