/** Which micro-batches of a minibatch are whose: shares of alike size, by the minibatch and their number alone. Pure. */

import { paddedLength } from '../model/token-batch.ts';
import type { PassSequence } from '../training/plan.ts';

type Sequences = ReadonlyArray<Pick<PassSequence, 'tokens'>>;

/** Tokens that a pass computes, padding included where there is some: what it costs. */
function costOf(micro: Sequences, packing: boolean): number {
  const lengths = micro.map(({ tokens }) => tokens.length - 1);
  return packing
    ? lengths.reduce((sum, length) => sum + length, 0)
    : micro.length * paddedLength(Math.max(1, ...lengths));
}

/**
 * Indices of `micro`, ascending in each share: the costliest first, each to the share that has least (the first of
 * equals). Shares without any are left out.
 */
export function assignShards(micro: readonly Sequences[], shards: number, packing = false): number[][] {
  const shares = Array.from({ length: shards }, () => ({ cost: 0, indices: [] as number[] }));
  const costs = micro.map((one, index) => ({ index, cost: costOf(one, packing) }));
  for (const { index, cost } of costs.sort((a, b) => b.cost - a.cost || a.index - b.index)) {
    const least = shares.reduce((a, b) => (b.cost < a.cost ? b : a));
    least.indices.push(index);
    least.cost += cost;
  }
  return shares.flatMap(({ indices }) => (indices.length > 0 ? [indices.sort((a, b) => a - b)] : []));
}
