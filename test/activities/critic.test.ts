/**
 * A run that trains a critic, step by step on the real trainer: hunts a critic that is lost, started twice or not
 * checked for disk space.
 */
import { trainingBy } from './scripted-parts.ts';
import { fileUri } from '../../protocol/policy-uri.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import { someTasks } from '../support/some-tasks.ts';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { resolveRunConfig } from '../../config/run-config.ts';
import type { GenerateRecord, RunRecord, UpdateEntry } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { roomForCheckpoint } from '../../activities/update/check-disk-space.ts';
import { updateOnce } from '../../activities/update/update.ts';
import { readCheckpointRecord } from '../../trainer/checkpoints/checkpoint.ts';
import type { Engine } from '../../trainer/engine.ts';
import type { UpdateRequest } from '../../trainer/update-request.ts';
import { loadWeights, weightsDigest } from '../../trainer/model/weights.ts';
import { Updater } from '../../trainer/update.ts';
import type { AlgorithmSettings } from '../../protocol/run-config.ts';
import { useSmallDisk } from './small-disk.ts';
import { attemptOf, ended, orchestratorActivities, putManifest, RUN, useWorld } from './world.ts';

const world = useWorld();
beforeEach(async () => {
  await putManifest(world.now.store, [attemptOf(0).task]);
});
const qwen3Dir = join(import.meta.dirname, '../vectors/models/qwen3-tiny');
const smallDisk = useSmallDisk();

const algorithm = resolveRunConfig(
  {
    policy: { base: qwen3Dir },
    task: { name: 'toy' },
    algorithm: {
      advantage: 'gae',
      lambd: 0.95,
      learningRate: 1e-3,
      microBatchTokens: 1024,
      critic: { learningRate: 1e-3, schedule: 'linear' },
    },
  },
  '/',
).algorithm as AlgorithmSettings;

/** Two rollouts of one task in the first step's batch, of two sequences and of one. */
async function rolledOut(): Promise<void> {
  const { store, dir } = world.now;
  for (const [k, reward] of [1, 0].entries()) {
    await ended(store, 0, k, reward);
    const turn = {
      version: 0,
      appended: [1, 2, 3],
      reset: false,
      sampled: [4 + k, 5, 6],
      logprobs: [-6, -6, -6],
      end: 'stop' as const,
    };
    await store.putOnce<GenerateRecord>(keys.generate(attemptOf(0, k), 1), {
      ...turn,
      parsed: { kind: 'no-call', content: '' },
    });
  }
  await store.putOnce<RunRecord>(keys.run(RUN), {
    run: RUN,
    runDir: dir,
    seed: 7,
    startedAt: '2026-01-01T00:00:00.000Z',
    policy: { base: fileUri(qwen3Dir), parameters: 1, vocabulary: 512 },
    critic: { base: fileUri(qwen3Dir) },
    task: { name: 'toy', train: 2, heldOut: 1 },
    tasks: someTasks,
  });
}

/** An engine that records its `requests`; a new one is a trainer that was started again. */
function engineOf(updater: Updater) {
  const requests: UpdateRequest[] = [];
  const engine: Pick<Engine, 'update'> = {
    update: (request) => {
      requests.push(request);
      return updater.run(request);
    },
  };
  return { engine: engine as Engine, requests };
}

const stepDir = (name: string, step: number): string => join(world.now.dir, name, 'checkpoints', `step-${step}`);

/** Step `n` of a run in the folder `name`; its records are its own. */
function stepOf(name: string, n: number, engine: Engine, over: Partial<AlgorithmSettings> = {}) {
  const policy =
    n === 1 ? { uri: fileUri(qwen3Dir), version: 0 } : { uri: fileUri(stepDir(name, n - 1)), version: n - 1 };
  const store = name === 'live' ? world.now.store : forgetful();
  const input = {
    run: RUN,
    runDir: join(world.now.dir, name),
    step: n,
    steps: 4,
    batches: [`train/${RUN}/step-1`],
    samples: 2,
    algorithm: { ...algorithm, ...over },
    policy,
  };
  return updateOnce(input, store, trainingBy(engine), () => undefined);
}

/** The store of a run whose updates are not recorded. */
function forgetful() {
  return new Proxy(world.now.store, {
    get: (target, property) => {
      const real = Reflect.get(target, property) as (...given: unknown[]) => unknown;
      if (property === 'putOnce')
        return (key: string, value: unknown) =>
          key.startsWith('update:') ? Promise.resolve(value) : real.call(target, key, value);
      return (...given: unknown[]) =>
        property === 'get' && String(given[0]).startsWith('update:')
          ? Promise.resolve(undefined)
          : real.apply(target, given);
    },
  });
}

const bits = (dir: string) =>
  ['model.safetensors', 'optimizer.safetensors', 'critic/model.safetensors', 'critic/optimizer.safetensors'].map(
    (file) => readFileSync(join(dir, file)),
  );

describe('a run with a critic', () => {
  it('continues it from step to step, with its own learning rate, and a restarted trainer ends in the same bits', async () => {
    await rolledOut();
    const live = engineOf(new Updater());
    for (const n of [1, 2, 3]) await stepOf('live', n, live.engine);
    expect(
      live.requests.map(({ critic, algorithm: { critic: settings } }) => [critic, settings?.learningRate.toFixed(6)]),
    ).toEqual(['0.001000', '0.000750', '0.000500'].map((rate) => [{ base: qwen3Dir, seed: 7 }, rate]));
    for (const n of [1, 2, 3]) await stepOf('again', n, engineOf(new Updater()).engine);
    expect(bits(stepDir('again', 3))).toEqual(bits(stepDir('live', 3)));
    const entry = (await world.now.store.get<UpdateEntry>(keys.update(RUN, 3)))!;
    expect(entry.metrics).toMatchObject({
      'critic/critic_lr': 5e-4,
      'critic/critic_loss': expect.any(Number) as number,
    });
    // The run reports the policy's weights alone.
    expect(entry.sha256).toBe(weightsDigest(await loadWeights(stepDir('live', 3))));
    expect((await readCheckpointRecord(join(stepDir('live', 3), 'critic')))?.optimizer?.steps).toBe(3);
  });

  it('carries it over a step that taught nothing, and continues as if that step had not been', async () => {
    await rolledOut();
    const updater = new Updater();
    const nothing: Partial<AlgorithmSettings> = { overlongFilter: true };
    const silent = async (n: number) => {
      // No rollout called finish: all are left out.
      const { engine, requests } = engineOf(updater);
      const store = world.now.store;
      const cut = new Proxy(store, {
        get: (target, property) => {
          const real = Reflect.get(target, property) as (...given: unknown[]) => Promise<unknown>;
          if (property !== 'get') return (...given: unknown[]) => real.apply(target, given);
          return async (key: string) =>
            key.startsWith('outcome:')
              ? { ...((await real.call(target, key)) as object), finish: 'max-turns' }
              : real.call(target, key);
        },
      });
      const policy =
        n === 1 ? { uri: fileUri(qwen3Dir), version: 0 } : { uri: fileUri(stepDir('live', n - 1)), version: n - 1 };
      const input = {
        run: RUN,
        runDir: join(world.now.dir, 'live'),
        step: n,
        steps: 4,
        batches: [`train/${RUN}/step-1`],
        samples: 2,
        algorithm: { ...algorithm, ...nothing },
        policy,
      };
      await updateOnce(input, cut, trainingBy(engine), () => undefined);
      expect(requests).toEqual([]);
    };
    await stepOf('live', 1, engineOf(updater).engine);
    await silent(2);
    const moments = 'critic/optimizer.safetensors';
    expect(readFileSync(join(stepDir('live', 2), moments))).toEqual(readFileSync(join(stepDir('live', 1), moments)));
    await stepOf('live', 3, engineOf(updater).engine);
    expect((await readCheckpointRecord(join(stepDir('live', 3), 'critic')))?.optimizer?.steps).toBe(2);
  });

  it('checks disk space for both, whether the critic exists or starts now', async () => {
    await rolledOut();
    await stepOf('live', 1, engineOf(new Updater()).engine);
    // A tiny policy of about 0.3 MB takes three times that; its critic as much again.
    const sizeOf = (dir: string) => readFileSync(join(dir, 'model.safetensors')).byteLength;
    const bytes = 3 * (sizeOf(qwen3Dir) + sizeOf(join(stepDir('live', 1), 'critic')) / 2);
    const disk = smallDisk(join(world.now.dir, 'disk'), bytes);
    const toDir = join(disk, 'checkpoints', 'step-2');
    const critic = { base: qwen3Dir, seed: 1 };
    await roomForCheckpoint({ fromDir: stepDir('live', 1), toDir });
    await expect(roomForCheckpoint({ fromDir: stepDir('live', 1), toDir, critic })).rejects.toThrow(/No space/);
    await expect(roomForCheckpoint({ fromDir: qwen3Dir, toDir, critic })).rejects.toThrow(/No space/);
    // If a new adapter of the policy is trained, only the adapter is written, however many shards there are.
    const lora = { rank: 2, alpha: 4, targetModules: ['q_proj' as const], seed: 3 };
    await expect(roomForCheckpoint({ fromDir: qwen3Dir, toDir }, 9)).rejects.toThrow(/No space/);
    await roomForCheckpoint({ fromDir: qwen3Dir, toDir, lora }, 9);
    await roomForCheckpoint({ fromDir: stepDir('live', 1), toDir, lora, critic });
    await expect(roomForCheckpoint({ fromDir: qwen3Dir, toDir, lora }, 2000)).rejects.toThrow(/No space/);
    // The same holds for a critic with an adapter; in shards it has its own states and gradients.
    const small = { ...critic, lora };
    await roomForCheckpoint({ fromDir: stepDir('live', 1), toDir, critic: small });
    await expect(roomForCheckpoint({ fromDir: qwen3Dir, toDir, lora, critic: small }, 2000)).rejects.toThrow(
      /No space/,
    );
    await roomForCheckpoint({ fromDir: qwen3Dir, toDir, lora, critic: small }, 9);
    await expect(roomForCheckpoint({ fromDir: qwen3Dir, toDir, lora, critic }, 9)).rejects.toThrow(/No space/);
  });

  it('keeps and removes it with its checkpoint', async () => {
    await rolledOut();
    const engine = engineOf(new Updater()).engine;
    const { store, dir } = world.now;
    const deps = {
      store,
      tasks: new TaskLoader(store),
      temporal: { address: 'a', namespace: 'n', ui: 'u' },
      describePolicy: async () => ({ parameters: 1, vocabulary: 512 }),
    };
    for (const n of [1, 2, 3]) {
      const { policy, sha256, record } = await stepOf('live', n, engine);
      const made = { ...record, seconds: { rollout: 1, train: 1, total: 2 } };
      await orchestratorActivities(deps).recordStep({
        run: RUN,
        runDir: join(dir, 'live'),
        record: made,
        policy,
        sha256,
        keep: n === 3,
      });
    }
    expect([1, 2, 3].map((n) => existsSync(join(stepDir('live', n), 'critic')))).toEqual([false, true, true]);
  });
});
