/**
 * Hunts weights from other rollouts that are used as a step's own: a run was ended in the middle of an update, and
 * started again with other groups for the same step. Store, files and updates are real; the test itself is the queue.
 */
import { trainingBy } from '../scripted-parts.ts';
import { fileUri } from '../../../protocol/policy-uri.ts';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { GenerateRecord, UpdateEntry } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { createShardActivities } from '../../../activities/update/sharded-update.ts';
import { updateOnce } from '../../../activities/update/update.ts';
import { clearOther } from '../../../activities/update/update-input.ts';
import { type Checkpoint, readCheckpointRecord, writeCheckpoint } from '../../../trainer/checkpoints/checkpoint.ts';
import { EmbeddedTrainer } from '../../../trainer/embedded/embedded-trainer.ts';
import type { PoolEngine } from '../../../trainer/engine.ts';
import { ShardedUpdater } from '../../../trainer/sharded/sharded-updater.ts';
import { Updater } from '../../../trainer/update.ts';
import type { UpdateInput } from '../../../protocol/update.ts';
import { algorithm, attemptOf, dyingAt, ended, inActivity, putManifest, RUN, useWorld } from '../world.ts';

const world = useWorld();
const qwen3Dir = join(import.meta.dirname, '../../vectors/models/qwen3-tiny');
let elsewhere: string;
beforeEach(() => {
  elsewhere = mkdtempSync(join(tmpdir(), 'longhaul-elsewhere-'));
});
afterEach(() => rmSync(elsewhere, { recursive: true, force: true }));

/** A new process each time. */
function engine(): PoolEngine {
  const trainer = new EmbeddedTrainer();
  const [updater, sharded] = [new Updater(trainer), new ShardedUpdater(trainer)];
  return {
    generate: () => Promise.reject(new Error('not asked to sample')),
    update: (request, progress) => updater.run(request, progress),
    planUpdate: (request) => sharded.planUpdate(request),
    forwardBackward: (request, progress) => sharded.forwardBackward(request, progress),
    optimStep: (request, progress) => sharded.optimStep(request, progress),
    close: async () => undefined,
  };
}

/** A group for each task that teaches something of its own. */
async function twoGroups(): Promise<void> {
  const { store } = world.now;
  for (const task of [0, 1])
    for (const [k, reward] of [1, 0].entries()) {
      await ended(store, task, k, reward);
      const turn = {
        version: 4,
        appended: [1, 2, 5 + task],
        reset: false,
        sampled: [3 + k, 7, 9, 11 + task, 0],
        logprobs: [-6, -6, -6, -6, -6],
        end: 'stop' as const,
      };
      await store.putOnce<GenerateRecord>(keys.generate(attemptOf(task, k), 1), {
        ...turn,
        parsed: { kind: 'no-call', content: '' },
      });
    }
}

let batches: string[];
beforeEach(async () => {
  batches = [];
  for (const task of [0, 1, 2]) batches.push(await putManifest(world.now.store, [attemptOf(task).task]));
});

/** Step 1, from the group of `task`. */
function inputOf(task: number, over: Partial<UpdateInput> = {}): UpdateInput {
  return {
    run: RUN,
    runDir: world.now.dir,
    step: 1,
    steps: 2,
    batches: [batches[task]!],
    samples: 2,
    algorithm,
    policy: { uri: fileUri(qwen3Dir), version: 4 },
    ...over,
  };
}
const place = () => join(world.now.dir, 'checkpoints', 'step-1');
const made = (input: UpdateInput) => updateOnce(input, world.now.store, trainingBy(engine()), () => undefined);

/** The process that made it was killed: the files exist, and nothing is recorded. */
async function leftBy(input: UpdateInput): Promise<string> {
  await expect(
    updateOnce(input, dyingAt(world.now.store, 'putOnce'), trainingBy(engine()), () => undefined),
  ).rejects.toThrow();
  return (await readCheckpointRecord(place()))!.sha256;
}

async function inShards(input: UpdateInput & { shards: number }): Promise<void> {
  const parts = createShardActivities({ store: world.now.store, engine: engine() });
  const { dir, plan, rounds } = await inActivity(() => parts.planUpdate(input));
  for (const [round, count] of rounds.entries()) {
    const at = { run: RUN, step: 1, dir, plan, round };
    for (let shard = 0; shard < count; shard++) await inActivity(() => parts.forwardBackward({ ...at, shard }));
    await inActivity(() => parts.optimStep(at));
  }
}

describe('a checkpoint that is in the place of an update', () => {
  it('is used if it was made from the same rollouts, and made again if it was made from others', async () => {
    await twoGroups();
    const own = (await made(inputOf(1, { runDir: elsewhere, run: 'other' }))).sha256;
    const left = await leftBy(inputOf(0));
    expect(left).not.toBe(own);
    expect((await made(inputOf(1))).sha256).toBe(own);
    expect((await readCheckpointRecord(place()))?.sha256).toBe(own);
    expect(await world.now.store.get<UpdateEntry>(keys.update(RUN, 1))).toMatchObject({ sha256: own });
  });

  it('is not made again for the same rollouts', async () => {
    await twoGroups();
    const left = await leftBy(inputOf(0));
    const { ino, mtimeMs } = statSync(place());
    expect((await made(inputOf(0))).sha256).toBe(left);
    expect(statSync(place())).toMatchObject({ ino, mtimeMs });
  });

  it.each(['learning rate', 'begin', 'version'])('is made again if it was made with another %s', async (what) => {
    await twoGroups();
    const other = await made(inputOf(1, { runDir: elsewhere, run: 'other' }));
    const overs: Record<string, Partial<UpdateInput>> = {
      'learning rate': { algorithm: { ...algorithm, learningRate: 3e-4 } },
      begin: { policy: { ...other.policy, version: 4 } },
      version: { policy: { uri: fileUri(qwen3Dir), version: 5 } },
    };
    await leftBy(inputOf(0));
    const before = await readCheckpointRecord(place());
    await made(inputOf(0, overs[what]));
    expect((await readCheckpointRecord(place()))?.input).not.toBe(before?.input);
  });

  it('stays if its update is recorded, even if another one is requested', async () => {
    await twoGroups();
    const { sha256 } = await made(inputOf(0));
    expect((await made(inputOf(1))).sha256).toBe(sha256);
    expect((await readCheckpointRecord(place()))?.sha256).toBe(sha256);
  });

  it('of an update that was recorded meanwhile stays', async () => {
    await twoGroups();
    const { sha256 } = await made(inputOf(0));
    await clearOther(inputOf(1), { toDir: place(), input: 'another' }, world.now.store);
    expect((await readCheckpointRecord(place()))?.sha256).toBe(sha256);
  });

  it('is refused if another one is recorded', async () => {
    await twoGroups();
    await made(inputOf(0));
    rmSync(place(), { recursive: true });
    const other = await made(inputOf(1, { run: 'other' }));
    await expect(made(inputOf(0))).rejects.toMatchObject({
      name: 'CheckpointTorn',
      message: expect.stringContaining(String(other.sha256)),
    });
  });

  it('is carried over anew if a step taught nothing', async () => {
    await twoGroups();
    const left = await leftBy(inputOf(0));
    for (const k of [0, 1]) await ended(world.now.store, 2, k, 1);
    const { sha256 } = await made(inputOf(2));
    expect(sha256).not.toBe(left);
    expect((await readCheckpointRecord(place()))?.sha256).toBe(sha256);
  });

  it('is made again by shards too', async () => {
    await twoGroups();
    await inShards({ ...inputOf(1, { runDir: elsewhere, run: 'other' }), shards: 2 });
    const own = (await readCheckpointRecord(join(elsewhere, 'checkpoints', 'step-1')))!.sha256;
    await inShards({ ...inputOf(0), shards: 2 });
    expect((await readCheckpointRecord(place()))!.sha256).not.toBe(own);
    await inShards({ ...inputOf(1), shards: 2 });
    expect((await made({ ...inputOf(1), shards: 2 })).sha256).toBe(own);
  });
});

it('a second update from other rollouts does not report that it has written', async () => {
  const checkpoint = (input: string): Checkpoint => ({
    weights: new Map([['w', { shape: [1], data: new Float32Array([input.length]) }]]),
    optimizer: undefined,
    step: 1,
    version: 1,
    fromDir: undefined,
    input,
  });
  const dir = join(elsewhere, 'step-1');
  expect((await writeCheckpoint(dir, checkpoint('first'))).written).toBe(true);
  expect((await writeCheckpoint(dir, checkpoint('first'))).written).toBe(false);
  await expect(writeCheckpoint(dir, checkpoint('another'))).rejects.toThrow(/ENOTEMPTY|EEXIST/);
  expect((await readCheckpointRecord(dir))?.input).toBe('first');
});
