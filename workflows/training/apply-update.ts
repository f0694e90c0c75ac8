/**
 * A step's update: by one worker whole, or in shards by all that are free. Either way `update` puts it on record, once;
 * what comes before can be made anywhere, and again.
 */

import { ActivityFailure, ApplicationFailure, log } from '@temporalio/workflow';
import { training } from '../activity-stubs.ts';
import type { TrainingPlacement } from '../../protocol/run-config.ts';
import type { UpdateInput, UpdateOutcome } from '../../protocol/update.ts';

/** So often an update is laid down; then something takes it away each time. */
const PLANS = 3;

type Workers = ReturnType<typeof training>;

const isPlanLost = (error: unknown): boolean =>
  error instanceof ActivityFailure && error.cause instanceof ApplicationFailure && error.cause.type === 'PlanLost';

async function makeRounds(input: UpdateInput & { readonly shards: number }, workers: Workers): Promise<void> {
  const { run, step } = input;
  const { dir, plan, rounds } = await workers.planUpdate(input);
  for (const [round, count] of rounds.entries()) {
    const at = { run, step, dir, plan, round };
    await Promise.all(Array.from({ length: count }, (_, shard) => workers.forwardBackward({ ...at, shard })));
    await workers.optimStep(at);
  }
}

/** An update whose files were taken away half-way is laid down again, from the same records. */
async function makeShards(input: UpdateInput & { readonly shards: number }, workers: Workers): Promise<void> {
  for (let plans = 1; ; plans += 1) {
    try {
      return await makeRounds(input, workers);
    } catch (error) {
      if (!isPlanLost(error) || plans >= PLANS) throw error;
      log.warn('the files of an update are gone: it begins again', { run: input.run, step: input.step });
    }
  }
}

/** Errors: those of the activities, after their retries. */
export async function applyUpdate(
  input: UpdateInput,
  placement: TrainingPlacement = 'colocated',
): Promise<UpdateOutcome> {
  const workers = training(placement);
  const { shards } = input;
  if (shards !== undefined) await makeShards({ ...input, shards }, workers);
  return workers.update(input);
}
