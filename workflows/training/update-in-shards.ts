/**
 * The parts of a step's update that all free workers share. Each can be made on any worker, and repeated; `update`
 * records their result, once.
 */

import { ActivityFailure, ApplicationFailure, log } from '@temporalio/workflow';
import type { training } from '../activity-stubs.ts';
import type { UpdateInput } from '../../protocol/update.ts';

/** How often an update is planned if its files are gone each time. */
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

/**
 * If the files of an update are removed meanwhile, it is planned again from the same records. Errors: those of the
 * activities, after their retries.
 */
export async function updateInShards(
  input: UpdateInput & { readonly shards: number },
  workers: Workers,
): Promise<void> {
  for (let plans = 1; ; plans += 1) {
    try {
      return await makeRounds(input, workers);
    } catch (error) {
      if (!isPlanLost(error) || plans >= PLANS) throw error;
      log.warn('the files of an update are gone: the update starts again', { run: input.run, step: input.step });
    }
  }
}
