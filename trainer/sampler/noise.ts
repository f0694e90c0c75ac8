/** Sampling noise by counter: the uniform number of a position is a function of noise key and position alone. */

import { createHash } from 'node:crypto';

/** High and low 32 bits of a 32 x 32 bit product, through 16-bit halves: each partial sum stays exact. */
function multiply(a: number, b: number): readonly [high: number, low: number] {
  const [ah, al, bh, bl] = [a >>> 16, a & 0xffff, b >>> 16, b & 0xffff];
  const low = al * bl;
  const middle = ah * bl + (low >>> 16);
  const carried = al * bh + (middle % 0x10000);
  const high = ah * bh + Math.floor(middle / 0x10000) + Math.floor(carried / 0x10000);
  return [high >>> 0, Math.imul(a, b) >>> 0];
}

type Words4 = readonly [number, number, number, number];

/**
 * Philox4x32 with 10 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3):
 * a bijection of the 128-bit counter for each 64-bit key. All words are unsigned 32-bit integers.
 */
export function philox(counter: Words4, key: readonly [number, number]): Words4 {
  let [c0, c1, c2, c3] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < 10; round++) {
    const [h0, l0] = multiply(0xd2511f53, c0);
    const [h1, l1] = multiply(0xcd9e8d57, c2);
    [c0, c1, c2, c3] = [(h1 ^ c1 ^ k0) >>> 0, l1, (h0 ^ c3 ^ k1) >>> 0, l0];
    k0 = (k0 + 0x9e3779b9) >>> 0;
    k1 = (k1 + 0xbb67ae85) >>> 0;
  }
  return [c0, c1, c2, c3];
}

/**
 * The noise named by `noiseKey`: SHA-256 of the key gives Philox its key (64 bits) and the upper half of its counter
 * (64 bits); the position is the lower half. Returns a uniform number in [0, 1) of 53 bits.
 */
export function noiseOf(noiseKey: string): (position: number) => number {
  const digest = createHash('sha256').update(noiseKey).digest();
  const key = [digest.readUInt32LE(0), digest.readUInt32LE(4)] as const;
  const upper = [digest.readUInt32LE(8), digest.readUInt32LE(12)] as const;
  return (position) => {
    const low = position >>> 0;
    const high = Math.floor(position / 2 ** 32) >>> 0;
    const [a, b] = philox([low, high, ...upper], key);
    return ((a >>> 5) * 2 ** 26 + (b >>> 6)) / 2 ** 53;
  };
}
