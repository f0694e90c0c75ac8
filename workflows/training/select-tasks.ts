/**
 * Which tasks a step draws: a function of seed and step alone. Each epoch is a new order of the pool. No step spans two
 * epochs, so none draws a task twice. The tasks that an epoch leaves out are fewer than a step's, and differ by epoch.
 */

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

/** The `count` task indices of `step` (from 1) out of a pool of `pool`; `count` is at most `pool`. */
export function selectTasks(seed: number, step: number, pool: number, count: number): number[] {
  const stepsPerEpoch = Math.floor(pool / count);
  const first = ((step - 1) % stepsPerEpoch) * count;
  return shuffled(pool, seed, Math.floor((step - 1) / stepsPerEpoch)).slice(first, first + count);
}
