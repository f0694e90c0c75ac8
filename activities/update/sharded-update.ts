/**
 * The parts of an update that several GPU workers share. What each part is follows from the step's input and from the
 * records; its files are in a folder of the run, and `update` clears them away when the update is on record.
 */

import { readdir, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { retryWhileDiskUnavailable, type Patience, WORKER_PATIENCE } from '../../store/disk-patience.ts';
import type { Store } from '../../store/store.ts';
import type { PoolEngine } from '../../trainer/engine.ts';
import type { UpdateRequest } from '../../trainer/update-request.ts';
import type { ShardActivities } from '../../protocol/activities.ts';
import type { RoundInput, UpdateInput, UpdateRounds } from '../../protocol/update.ts';
import { keys } from '../../protocol/records.ts';
import { checkWorkersLost, tried } from '../tries.ts';
import { roomForCheckpoint, WEIGHTS_AND_MOMENTS } from './check-disk-space.ts';
import { trainingDataOf } from './training-data.ts';
import { clearOther } from './update-input.ts';
import { teaches, updateRequestOf } from './update-request.ts';

const updatesDir = (runDir: string): string => join(runDir, 'updates');

/** Another input is another update, with a folder of its own. */
function folderOf({ runDir, step }: UpdateInput, { input = '' }: UpdateRequest): string {
  return join(updatesDir(runDir), `step-${step}-${input.slice(0, 12)}`);
}

/** Of no step, what is not ours. */
const stepOf = (folder: string): number => Number(/^step-(\d+)-/.exec(folder)?.[1]);

/**
 * Nobody needs parts of updates any more, of those up to this step: an execution of its `update` that comes late, or once
 * more when a run is begun again, leaves those of the step that is under way.
 */
export async function clearUpdates(runDir: string, upTo = Infinity): Promise<void> {
  const dir = updatesDir(runDir);
  const folders = await readdir(dir).catch(() => []);
  for (const folder of folders)
    if (stepOf(folder) <= upTo) await rm(join(dir, folder), { recursive: true, force: true });
  await rmdir(dir).catch(() => undefined);
}

/** `update` alone says what becomes of the step. */
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
  const request = await updateRequestOf(input, prepared, store);
  const [dir, { shards }] = [folderOf(input, request), input];
  return retryWhileDiskUnavailable(request.toDir, patience, async () => {
    await clearOther(input, request, store);
    // At the same time: a round's state and the next one's, and a gradient for each shard.
    await roomForCheckpoint(request, 2 * WEIGHTS_AND_MOMENTS + shards);
    return { dir, ...(await engine.planUpdate({ ...request, dir, shards })) };
  });
}

/** Everything that may be made twice is noted before it begins. */
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
        await retryWhileDiskUnavailable(dir, patience, () =>
          engine.forwardBackward({ dir, plan, round, shard }, progress),
        );
      }),

    optimStep: (input) =>
      tried(limits, async (_signal, progress) => {
        const { dir, plan, round } = input;
        await begun(input, 'step', store);
        await retryWhileDiskUnavailable(dir, patience, () => engine.optimStep({ dir, plan, round }, progress));
      }),
  };
}
