/** Divides training data into minibatches (one optimizer step each) and micro-batches (one pass each); pure, seeded. */

import { noiseOf } from '../sampler/noise.ts';
import type { Batching } from '../passes.ts';
import { type TokenSequence, paddedLength } from '../model/token-batch.ts';

/** A permutation of 0 … count − 1 that `key` determines (Fisher and Yates). */
export function shuffled(count: number, key: string): number[] {
  const order = Array.from({ length: count }, (_, i) => i);
  const noise = noiseOf(key);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(noise(i) * (i + 1));
    [order[i], order[j]] = [order[j] ?? 0, order[i] ?? 0];
  }
  return order;
}

/** Cuts `items` into `parts` consecutive parts whose lengths differ by at most one; empty ones are left out. */
export function split<T>(items: readonly T[], parts: number): T[][] {
  const cut = (i: number): number => Math.floor((i * items.length) / parts);
  return Array.from({ length: parts }, (_, i) => items.slice(cut(i), cut(i + 1))).filter((part) => part.length > 0);
}

/**
 * Sorts by length, the longest first, and puts as many sequences into a batch as fit the budget, padded or packed. A
 * sequence that exceeds the budget gets a batch of its own.
 */
export function microBatches<T extends TokenSequence>(
  sequences: readonly T[],
  { microBatchTokens, packing }: Batching,
): T[][] {
  const sorted = [...sequences].sort((a, b) => b.tokens.length - a.tokens.length);
  const batches: T[][] = [];
  let [current, width, total]: [T[], number, number] = [[], 0, 0];
  for (const sequence of sorted) {
    const own = sequence.tokens.length - 1;
    const taken = packing === true ? total + own : (current.length + 1) * width;
    if (current.length > 0 && taken > microBatchTokens) current = [];
    if (current.length === 0) {
      batches.push(current);
      [width, total] = [paddedLength(own), 0];
    }
    current.push(sequence);
    total += own;
  }
  return batches;
}

/** Halves the budget until there are at least as many micro-batches as shards, or as sequences if those are fewer. */
export function microBatchesFor<T extends TokenSequence>(
  sequences: readonly T[],
  { microBatchTokens, packing = false }: Batching,
  shards: number,
): T[][] {
  const wanted = Math.min(shards, sequences.length);
  let micro = microBatches(sequences, { microBatchTokens, packing });
  for (let budget = microBatchTokens; micro.length < wanted && budget > 1;) {
    budget = Math.ceil(budget / 2);
    micro = microBatches(sequences, { microBatchTokens: budget, packing });
  }
  return micro;
}
