/**
 * A step's update: by one worker whole, or in shards by all that are free. Either way `update` puts it on record, once;
 * what comes before can be made anywhere, and again.
 */

import { training } from '../activities.ts';
import type { TrainingPlacement } from '../messages/run-config.ts';
import type { UpdateInput, UpdateOutcome } from '../messages/update.ts';

/** Errors: those of the activities, after their retries. */
export async function applyUpdate(input: UpdateInput, placement: TrainingPlacement = 'colocated'): Promise<UpdateOutcome> {
  const workers = training(placement);
  const { run, step, shards } = input;
  if (shards !== undefined) {
    const { dir, plan, rounds } = await workers.planUpdate({ ...input, shards });
    for (const [round, count] of rounds.entries()) {
      const at = { run, step, dir, plan, round };
      await Promise.all(Array.from({ length: count }, (_, shard) => workers.forwardBackward({ ...at, shard })));
      await workers.optimStep(at);
    }
  }
  return workers.update(input);
}
