/** Values per token of several sequences, one sequence after the other. All formulas of this folder use this layout. */

/** One value per token of all sequences. */
export type Values = ArrayLike<number>;

/** Sequence r has the entries `starts[r]` … `starts[r + 1] − 1`. One number more than there are sequences. */
export type Starts = ArrayLike<number>;

/** Tokens of sequences, and which of them count. */
export interface Masked {
  readonly starts: Starts;
  /** 1 where a token counts, else 0. */
  readonly mask: Values;
}

/** Log-ratios are clamped to ±20 before exp, so that no ratio overflows a float32. */
export const MAX_LOG_RATIO = 20;

export const at = (values: Values, i: number): number => values[i] ?? 0;

export const clamp = (x: number, low: number, high: number): number => Math.min(high, Math.max(low, x));

/** exp(x), x clamped to ±20. */
export const clampedExp = (x: number): number => Math.exp(clamp(x, -MAX_LOG_RATIO, MAX_LOG_RATIO));

export const rowCount = (starts: Starts): number => Math.max(0, starts.length - 1);

/** Starts of sequences of these lengths. */
export function startsOf(lengths: readonly number[]): number[] {
  const starts = [0];
  for (const length of lengths) starts.push((starts.at(-1) ?? 0) + length);
  return starts;
}

/** Calls `visit` for each sequence with its first entry and the entry after its last. */
export function eachRow(starts: Starts, visit: (row: number, from: number, to: number) => void): void {
  for (let row = 0; row + 1 < starts.length; row++) visit(row, at(starts, row), at(starts, row + 1));
}

/** Σ of `value(i)` over the entries from … to − 1. */
export function sumOver(from: number, to: number, value: (i: number) => number): number {
  let sum = 0;
  for (let i = from; i < to; i++) sum += value(i);
  return sum;
}

/** Number of tokens that count in a run of entries. */
export const countOf = (mask: Values, from = 0, to: number = mask.length): number =>
  sumOver(from, to, (i) => at(mask, i));

/** Mean over the tokens that count; 0 if none counts. */
export function maskedMean(mask: Values, value: (i: number) => number, from = 0, to: number = mask.length): number {
  return sumOver(from, to, (i) => value(i) * at(mask, i)) / Math.max(1, countOf(mask, from, to));
}

export const ones = (count: number): Uint8Array => new Uint8Array(count).fill(1);

export function joined(parts: readonly Float64Array[]): Float64Array {
  const out = new Float64Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

export function parted(whole: Float64Array, lengths: readonly number[]): Float64Array[] {
  let at = 0;
  return lengths.map((length) => whole.subarray(at, (at += length)));
}
