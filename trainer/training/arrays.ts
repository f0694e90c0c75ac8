/** Arrays of numbers put together and taken apart; nothing is lost on the way. */

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
