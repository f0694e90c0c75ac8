/** Exact numbers: quotients of integers, of a bounded size. */

/** `bottom` is above 0. Not reduced. */
export interface Fraction {
  readonly top: bigint;
  readonly bottom: bigint;
}

/** Larger ones are no numbers of an answer. */
const MOST_BITS = 4096n;
const MOST = 1n << MOST_BITS;

const size = (value: bigint): bigint => (value < 0n ? -value : value);

export const fraction = (top: bigint, bottom = 1n): Fraction => ({ top, bottom });

/** `undefined` if it is too large, or no number. */
function within(top: bigint, bottom: bigint): Fraction | undefined {
  if (bottom === 0n || size(top) > MOST || size(bottom) > MOST) return undefined;
  let [a, b] = [size(top), size(bottom)];
  while (b !== 0n) [a, b] = [b, a % b];
  const shared = bottom < 0n ? -a : a;
  return shared === 0n ? undefined : { top: top / shared, bottom: bottom / shared };
}

/** Of digits with at most one dot. `undefined` for another text. */
export function decimalOf(text: string): Fraction | undefined {
  const [, whole = '', part = ''] = /^(\d{0,1000})(?:\.(\d{0,1000}))?$/.exec(text) ?? [];
  if (whole === '' && part === '') return undefined;
  return within(BigInt(`${whole}${part}`), 10n ** BigInt(part.length));
}

export const sameFraction = (a: Fraction, b: Fraction): boolean => a.top * b.bottom === b.top * a.bottom;

export const added = (a: Fraction, b: Fraction): Fraction | undefined =>
  within(a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom);

export const multiplied = (a: Fraction, b: Fraction): Fraction | undefined =>
  within(a.top * b.top, a.bottom * b.bottom);

export const divided = (a: Fraction, b: Fraction): Fraction | undefined => within(a.top * b.bottom, a.bottom * b.top);

/** To a whole exponent. */
export function raised(a: Fraction, exponent: number): Fraction | undefined {
  const bits = Math.max(size(a.top).toString(2).length, a.bottom.toString(2).length);
  if (!Number.isInteger(exponent) || bits * Math.abs(exponent) > Number(MOST_BITS)) {
    const isUnit = a.bottom === 1n && size(a.top) <= 1n && Number.isSafeInteger(exponent);
    if (!isUnit) return undefined;
    return within(exponent % 2 === 0 ? a.top * a.top : a.top, 1n);
  }
  const [up, down] = [a.top ** BigInt(Math.abs(exponent)), a.bottom ** BigInt(Math.abs(exponent))];
  return exponent < 0 ? within(down, up) : within(up, down);
}

export function numberOf({ top, bottom }: Fraction): number {
  const value = Number(top) / Number(bottom);
  if (Number.isFinite(value)) return value;
  const shift = BigInt(Math.max(0, size(bottom).toString(2).length - 1000));
  return Number(top >> shift) / Number(bottom >> shift);
}
