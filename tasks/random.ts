/** Counter-based randomness: draw `n` of a named stream depends only on the name and `n`. */

import { createHash } from 'node:crypto';

export interface Random {
  /** A whole number in `[low, high]`, both included. */
  integer(low: number, high: number): number;
  /** True with probability `p`. */
  chance(p: number): boolean;
  /** Errors: `RangeError` if `items` is empty. */
  pick<T>(items: readonly T[]): T;
  /** A shuffled copy (Fisher-Yates). */
  shuffle<T>(items: readonly T[]): T[];
}

/** SplitMix32's finaliser over the counter, keyed by 64 bits of SHA-256 of the name. */
function drawer(name: string): () => number {
  const digest = createHash('sha256').update(name).digest();
  const low = digest.readUInt32LE(0);
  const high = digest.readUInt32LE(4);
  let counter = 0;
  const mix = (value: number): number => {
    let z = value | 0;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return (z ^ (z >>> 15)) >>> 0;
  };
  return () => {
    counter += 1;
    return mix(mix((low + Math.imul(counter, 0x9e3779b9)) | 0) ^ high) / 2 ** 32;
  };
}

export function createRandom(name: string): Random {
  const draw = drawer(name);
  const integer = (low: number, high: number): number => low + Math.floor(draw() * (high - low + 1));
  return {
    integer,
    chance: (p) => draw() < p,
    pick: (items) => {
      const item = items[integer(0, items.length - 1)];
      if (item === undefined) throw new RangeError('nothing to pick from');
      return item;
    },
    shuffle: (items) => {
      const out = [...items];
      for (let i = out.length - 1; i > 0; i -= 1) {
        const j = integer(0, i);
        const [a, b] = [out[i], out[j]];
        if (a !== undefined && b !== undefined) [out[i], out[j]] = [b, a];
      }
      return out;
    },
  };
}
