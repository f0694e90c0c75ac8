/**
 * The parts of an update that several GPU workers share. What each part is follows from the step's input and from the
 * records; its files are in a folder of the run, and `update` removes them when the update is recorded.
 */

import { readdir, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { retryWhileDiskUnavailable, type Patience, WORKER_PATIENCE } from '../../store/disk-patience.ts';
import type { Store } from '../../store/store.ts';
import type { PoolEngine } from '../../trainer/engine.ts';
import type { UpdateRequest } from '../../trainer/update-request.ts';
import type { ShardActivities } from '../../protocol/activities.ts';
import type { RoundInput, UpdateInput, UpdateRounds } from '../../protocol/update.ts';
import { keys } from '../../protocol/record-keys.ts';
import { checkWorkersLost, tried } from '../tries.ts';
import { roomForCheckpoint, WEIGHTS_AND_MOMENTS } from './check-disk-space.ts';
import { trainingDataOf } from './training-data.ts';
import { cacheModulesOf } from '../../modules/import-bundle.ts';
import { clearOther } from './update-input.ts';
import { teaches, updateRequestOf } from './update-request.ts';

const updatesDir = (runDir: string): string => join(runDir, 'updates');

/** Another input is another update, with its own folder. */
function folderOf({ runDir, step }: UpdateInput, { input = '' }: UpdateRequest): string {
  return join(updatesDir(runDir), `step-${step}-${input.slice(0, 12)}`);
}

/** The step of a folder; `NaN` if the folder is not ours. */
const stepOf = (folder: string): number => Number(/^step-(\d+)-/.exec(folder)?.[1]);

/**
 * Removes the parts of updates up to this step. Later ones stay: an execution of `update` may be late, or repeated
 * after the run was started again, and must not remove the parts of the current step.
 */
export async function clearUpdates(runDir: string, upTo = Infinity): Promise<void> {
  const dir = updatesDir(runDir);
  const folders = await readdir(dir).catch(() => []);
  for (const folder of folders)
    if (stepOf(folder) <= upTo) await rm(join(dir, folder), { recursive: true, force: true });
  await rmdir(dir).catch(() => undefined);
}

/** No shards: `update` alone decides what happens to the step. */
const NOTHING_TO_SHARE: UpdateRounds = { dir: '', plan: '', rounds: [] };

export interface ShardDeps {
  readonly store: Store;
  readonly engine: Pick<PoolEngine, 'planUpdate' | 'forwardBackward' | 'optimStep'>;
  readonly patience?: Patience;
}

async function planUpdate(
  input: UpdateInput & { shards: number },
  { store, engine, patience = WORKER_PATIENCE }: ShardDeps,
): Promise<UpdateRounds> {
  if ((await store.get(keys.update(input.run, input.step))) !== undefined) return NOTHING_TO_SHARE;
  await checkWorkersLost(store);
  const prepared = await trainingDataOf(input, store);
  if (!teaches(prepared)) return NOTHING_TO_SHARE;
  await cacheModulesOf(input.run, store);
  const request = await updateRequestOf(input, prepared, store);
  const [dir, { shards }] = [folderOf(input, request), input];
  return retryWhileDiskUnavailable(request.toDir, patience, async () => {
    await clearOther(input, request, store);
    // On disk at the same time: a round's state and the next one's, and a gradient for each shard.
    await roomForCheckpoint(request, 2 * WEIGHTS_AND_MOMENTS + shards);
    return { dir, ...(await engine.planUpdate({ ...request, dir, shards })) };
  });
}

/** Every part that may be made twice is journalled before it starts. */
async function begun({ run, step, round }: RoundInput, part: string, store: Store): Promise<void> {
  await checkWorkersLost(store);
  await store.begin(`shard:${keys.update(run, step)}/${round}/${part}`);
}

export function createShardActivities(deps: ShardDeps): ShardActivities {
  const { store, engine, patience = WORKER_PATIENCE } = deps;
  const limits = { store, place: 'gpu' } as const;
  return {
    planUpdate: (input) => tried(limits, () => planUpdate(input, deps)),

    forwardBackward: (input) =>
      tried(limits, async (_signal, progress) => {
        const { dir, plan, round, shard } = input;
        await begun(input, String(shard), store);
        await cacheModulesOf(input.run, store);
        await retryWhileDiskUnavailable(dir, patience, () =>
          engine.forwardBackward({ dir, plan, round, shard }, progress),
        );
      }),

    optimStep: (input) =>
      tried(limits, async (_signal, progress) => {
        const { dir, plan, round } = input;
        await begun(input, 'step', store);
        await cacheModulesOf(input.run, store);
        await retryWhileDiskUnavailable(dir, patience, () => engine.optimStep({ dir, plan, round }, progress));
      }),
  };
}
