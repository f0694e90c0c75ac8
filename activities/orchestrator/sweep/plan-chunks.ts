/**
 * The remaining rollouts as batches: each missing sample of each task is in exactly one batch, and no batch is too
 * large.
 */

import type { SweepChunk } from '../../../protocol/eval.ts';

/**
 * Rollouts of one batch. Each batch waits for its slowest rollout, so batches are few and large. Each rollout adds
 * about ten events to its batch's history, so a batch this large continues in a new history only once or twice.
 */
export const CHUNK_ROLLOUTS = 500;

interface Stretch {
  readonly first: number;
  readonly count: number;
}

/** Missing samples of one task as stretches without a gap, none longer than `most`. */
function stretchesOf(samples: number, has: (sample: number) => boolean, most: number): Stretch[] {
  const stretches: Stretch[] = [];
  for (let sample = 0; sample < samples; sample += 1) {
    if (has(sample)) continue;
    const last = stretches.at(-1);
    if (last && last.first + last.count === sample && last.count < most)
      stretches[stretches.length - 1] = { ...last, count: last.count + 1 };
    else stretches.push({ first: sample, count: 1 });
  }
  return stretches;
}

/**
 * Chunks for the samples `0..samples − 1` of each task, except those for which `has` is true, in the order of `tasks`.
 */
export function planChunks(
  tasks: readonly string[],
  samples: number,
  has: (task: string, sample: number) => boolean,
  most = CHUNK_ROLLOUTS,
): SweepChunk[] {
  const alike = new Map<string, { readonly stretch: Stretch; readonly tasks: string[] }>();
  for (const task of tasks) {
    for (const stretch of stretchesOf(samples, (sample) => has(task, sample), most)) {
      const key = `${stretch.first}+${stretch.count}`;
      const group = alike.get(key) ?? { stretch, tasks: [] };
      group.tasks.push(task);
      alike.set(key, group);
    }
  }
  return [...alike.values()].flatMap(({ stretch: { first, count }, tasks: group }) => {
    const perChunk = Math.max(1, Math.floor(most / count));
    return Array.from({ length: Math.ceil(group.length / perChunk) }, (_, i) => ({
      tasks: group.slice(i * perChunk, (i + 1) * perChunk),
      firstSample: first,
      samples: count,
    }));
  });
}
