/** Counter-based sampling noise: a position's uniform number is a function of noise key and position alone. */

import { createHash } from 'node:crypto';

/** High 32 bits of a 32 x 32 bit product, through the halves of `b`: each partial sum is below 2^49, and exact. */
const high = (a: number, b: number): number =>
  Math.floor((a * (b >>> 16) + Math.floor((a * (b & 0xffff)) / 0x10000)) / 0x10000);

type Words4 = readonly [number, number, number, number];

/**
 * Philox4x32 with 10 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3):
 * a bijection of the 128-bit counter for each 64-bit key. All words are unsigned 32-bit integers.
 */
export function philox(counter: Words4, key: readonly [number, number]): Words4 {
  let [c0, c1, c2, c3] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < 10; round++) {
    const [h0, h1] = [high(c0, 0xd2511f53), high(c2, 0xcd9e8d57)];
    const [l0, l1] = [Math.imul(c0, 0xd2511f53) >>> 0, Math.imul(c2, 0xcd9e8d57) >>> 0];
    [c0, c1, c2, c3] = [(h1 ^ c1 ^ k0) >>> 0, l1, (h0 ^ c3 ^ k1) >>> 0, l0];
    k0 = (k0 + 0x9e3779b9) >>> 0;
    k1 = (k1 + 0xbb67ae85) >>> 0;
  }
  return [c0, c1, c2, c3];
}

/**
 * The noise of `noiseKey`: SHA-256 of the key gives Philox its key (64 bits) and the upper half of its counter
 * (64 bits); the position is the lower half. Each number is uniform in [0, 1), with 53 bits.
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
