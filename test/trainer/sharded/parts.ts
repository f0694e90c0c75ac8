/** Runs updates in shards part by part; each `ShardedUpdater` is a worker with its own memory. */

import { EmbeddedTrainer } from '../../../trainer/embedded/embedded-trainer.ts';
import type { PlannedUpdate, PlanRequest } from '../../../trainer/update-request.ts';
import { ShardedUpdater } from '../../../trainer/sharded/sharded-updater.ts';

export const worker = (): ShardedUpdater => new ShardedUpdater(new EmbeddedTrainer());

/** The worker that makes a shard of a round, or takes its step. */
export type Who = (round: number, shard: number | 'step') => ShardedUpdater;

/** Runs a plan from round `begin` on, each round's last shard first. `who` returns the worker of each part. */
export async function carryOut(
  { dir }: Pick<PlanRequest, 'dir'>,
  { plan, rounds }: PlannedUpdate,
  who: Who,
  begin = 0,
): Promise<void> {
  for (const [round, shards] of rounds.entries()) {
    if (round < begin) continue;
    for (let shard = shards - 1; shard >= 0; shard--)
      await who(round, shard).forwardBackward({ dir, plan, round, shard });
    await who(round, 'step').optimStep({ dir, plan, round });
  }
}
