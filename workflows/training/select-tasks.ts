/**
 * Which tasks a step draws: a function of seed and step alone. Each epoch is a new order of the pool. No step spans two
 * epochs, so none draws a task twice. The tasks that an epoch leaves out are fewer than a step's, and differ by epoch.
 */

import type { WeightedPool } from '../../protocol/task-key.ts';

/** A finaliser on 32 bits: a larger one, such as SplitMix64's, is not needed to order a pool. */
function mix(value: number): number {
  let x = value | 0;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return (x ^ (x >>> 15)) >>> 0;
}

/** Indices 0..n-1 in the order of epoch `epoch`, by Fisher and Yates. */
function shuffled(n: number, seed: number, epoch: number): number[] {
  const order = Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = mix(mix(mix(seed + 1) ^ (epoch + 1)) ^ (i + 1)) % (i + 1);
    const held = order[i] ?? 0;
    order[i] = order[j] ?? 0;
    order[j] = held;
  }
  return order;
}

/** The golden ratio's fraction: its multiples are spread evenly, so that shares are on average those of the weights. */
const GOLDEN = 0.618_033_988_749_894_9;

/**
 * How many of a step's `count` tasks come from each source, by weight. Each share is rounded up or down, by systematic
 * sampling; its offset depends on the step.
 */
export function sharesOf(step: number, weights: readonly number[], count: number): number[] {
  const sum = weights.reduce((all, weight) => all + weight, 0);
  const exact = weights.map((weight) => (count * weight) / sum);
  const offset = (step * GOLDEN) % 1;
  let [taken, given] = [0, 0];
  return exact.map((share, i) => {
    taken += share;
    // The last boundary is exactly `count`, in spite of rounding errors.
    const upTo = i === exact.length - 1 ? count : Math.floor(taken + offset);
    const drawn = upTo - given;
    given = upTo;
    return drawn;
  });
}

/** The `count` task indices of `step` (from 1) out of a pool of `pool`; `count` is at most `pool`. */
export function selectTasks(seed: number, step: number, pool: number, count: number): number[] {
  const stepsPerEpoch = Math.floor(pool / count);
  const first = ((step - 1) % stepsPerEpoch) * count;
  return shuffled(pool, seed, Math.floor((step - 1) / stepsPerEpoch)).slice(first, first + count);
}

/** The pools and indices that `step` draws, no task twice. Tasks of several pools are shuffled. */
export function drawTasks(
  seed: number,
  step: number,
  pools: ReadonlyArray<Pick<WeightedPool, 'count' | 'weight'>>,
  count: number,
): Array<{ readonly pool: number; readonly index: number }> {
  const weights = pools.map(({ weight }) => weight);
  const sum = weights.reduce((all, weight) => all + weight, 0);
  const shares = sharesOf(step, weights, count);
  const drawn = pools.flatMap(({ count: size, weight }, pool) => {
    // Room for the most tasks that a step may draw of it, since epochs are whole numbers of steps.
    const most = pools.length === 1 ? count : Math.min(size, Math.ceil((count * weight) / sum) + 1);
    return selectTasks(seed + pool * 7919, step, size, most)
      .slice(0, shares[pool])
      .map((index) => ({ pool, index }));
  });
  if (pools.length === 1) return drawn;
  return shuffled(drawn.length, seed, step).flatMap((i) => drawn[i] ?? []);
}
