/**
 * Hunts updates in shards that end otherwise than a plain `update`, twice, or with files left behind, when a worker
 * dies half-way. Workers are separate engines over one store and one folder; the test itself is the queue.
 */
import { trainingBy } from '../scripted-parts.ts';
import { fileUri } from '../../../protocol/policy-uri.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { someTasks } from '../../support/some-tasks.ts';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { readFile, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { GenerateRecord, RunRecord, UpdateEntry } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { resolveRunConfig } from '../../../config/run-config.ts';
import { clearUpdates, createShardActivities } from '../../../activities/update/sharded-update.ts';
import { updateOnce } from '../../../activities/update/update.ts';
import { EmbeddedTrainer } from '../../../trainer/embedded/embedded-trainer.ts';
import type { Engine, PoolEngine } from '../../../trainer/engine.ts';
import { ShardedUpdater } from '../../../trainer/sharded/sharded-updater.ts';
import { Updater } from '../../../trainer/update.ts';
import type { ShardActivities } from '../../../protocol/activities.ts';
import type { UpdateInput } from '../../../protocol/update.ts';
import {
  algorithm,
  attemptOf,
  ended,
  eventLines,
  inActivity,
  orchestratorActivities,
  putManifest,
  RUN,
  useWorld,
} from '../world.ts';

const world = useWorld();
beforeEach(async () => {
  const tasks = [0, 1].map((task) => attemptOf(task).task);
  await putManifest(world.now.store, tasks);
});
const qwen3Dir = join(import.meta.dirname, '../../vectors/models/qwen3-tiny');

function inputOf(shards: number): UpdateInput & { shards: number } {
  const settings = { ...algorithm, epochs: 2, minibatches: shards > 2 ? 1 : 2 };
  return {
    run: RUN,
    runDir: world.now.dir,
    step: 1,
    steps: 2,
    batches: [`train/${RUN}/step-1`],
    samples: 2,
    algorithm: settings,
    policy: { uri: fileUri(qwen3Dir), version: 4 },
    shards,
  };
}

/** Two groups that teach something. */
async function aStep(): Promise<void> {
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

type TestWorker = {
  readonly [K in keyof ShardActivities]: (input: Parameters<ShardActivities[K]>[0]) => ReturnType<ShardActivities[K]>;
} & { readonly update: (input: UpdateInput) => ReturnType<typeof updateOnce> };

/** A separate worker: it shares files and store with the others, and no memory. */
function worker(): TestWorker {
  const { store } = world.now;
  const trainer = new EmbeddedTrainer();
  const [updater, sharded] = [new Updater(trainer), new ShardedUpdater(trainer)];
  const engine: PoolEngine = {
    generate: () => Promise.reject(new Error('not asked to sample')),
    update: (request, progress) => updater.run(request, progress),
    planUpdate: (request) => sharded.planUpdate(request),
    forwardBackward: (request, progress) => sharded.forwardBackward(request, progress),
    optimStep: (request, progress) => sharded.optimStep(request, progress),
    close: async () => undefined,
  };
  const activities = createShardActivities({ store, engine });
  return {
    planUpdate: (input) => inActivity(() => activities.planUpdate(input)),
    forwardBackward: (input) => inActivity(() => activities.forwardBackward(input)),
    optimStep: (input) => inActivity(() => activities.optimStep(input)),
    update: (input) => updateOnce(input, store, trainingBy(engine satisfies Engine), () => undefined),
  };
}

type By = <T>(part: (worker: TestWorker) => Promise<T>) => Promise<T>;

/** The whole update except its record, as the workflow makes it. `before` each step its files may be damaged. */
async function makeParts(
  input: UpdateInput & { shards: number },
  by: By,
  before: (round: number, dir: string) => Promise<void> = async () => undefined,
) {
  const { dir, plan, rounds } = await by((one) => one.planUpdate(input));
  for (const [round, count] of rounds.entries()) {
    const at = { run: RUN, step: 1, dir, plan, round };
    for (let shard = 0; shard < count; shard++) await by((one) => one.forwardBackward({ ...at, shard }));
    await before(round, dir);
    await by((one) => one.optimStep(at));
  }
  return rounds;
}

/** `who` takes each part. */
async function carryOut(input: UpdateInput & { shards: number }, who: () => TestWorker) {
  const rounds = await makeParts(input, (part) => part(who()));
  return { rounds, outcome: await who().update(input) };
}

const policyBytes = (dir: string) =>
  Promise.all(['model.safetensors', 'optimizer.safetensors'].map((name) => readFile(join(dir, name))));

describe('an update in shards', () => {
  it('is recorded like any other, once, with nothing left of its parts', async () => {
    await aStep();
    const one = worker();
    const { rounds, outcome } = await carryOut(inputOf(2), () => one);
    expect(rounds).toEqual([2, 2, 2, 2]);
    const toDir = join(world.now.dir, 'checkpoints', 'step-1');
    expect(outcome.policy).toEqual({ uri: fileUri(toDir), version: 5 });
    expect(outcome.record).toMatchObject({ step: 1, policyVersion: 5, groups: 2, valid: 4, trainedTokens: 20 });
    expect(await eventLines(world.now.store)).toEqual(Array.from({ length: 4 }, () => 'trained v5'));
    expect(existsSync(join(world.now.dir, 'updates'))).toBe(false);
    expect(readdirSync(toDir)).toContain('optimizer.safetensors');
    // Repeated from the plan on: nothing is done, and the result is the same.
    expect(await carryOut(inputOf(2), worker)).toEqual({ rounds: [], outcome });
    expect((await world.now.store.repeats())['update']).toBe(0);
    expect(await eventLines(world.now.store)).toEqual(Array.from({ length: 4 }, () => 'trained v5'));
  });

  it.each([2, 3])(
    'by %i shards ends in the same bits when workers die half-way and others continue',
    async (shards) => {
      await aStep();
      const one = worker();
      const aside = join(world.now.dir, 'reference');
      const planned = await makeParts({ ...inputOf(shards), runDir: aside }, (part) => part(one));
      const reference = await policyBytes(join(aside, 'checkpoints', 'step-1'));
      // The same step in another folder: of three workers that take a part one dies before it, and one after it.
      const input = inputOf(shards);
      let parts = 0;
      const dying = (): TestWorker => {
        const real = worker();
        const after =
          <T, I>(part: (given: I) => Promise<T>) =>
          async (given: I): Promise<T> => {
            parts += 1;
            if (parts % 3 === 1) throw new Error('killed before');
            const made = await part(given);
            if (parts % 3 === 2) throw new Error('killed after');
            return made;
          };
        return {
          planUpdate: after(real.planUpdate),
          forwardBackward: after(real.forwardBackward),
          optimStep: after(real.optimStep),
          update: real.update,
        };
      };
      const patient: By = async (part) => {
        for (let tries = 0; tries < 3; tries++) {
          const made = await part(dying()).then(
            (value) => ({ value }),
            () => undefined,
          );
          if (made) return made.value;
        }
        throw new Error('died three times in a row');
      };
      const tear = async (round: number, dir: string) => {
        if (round === 1) await truncate(join(dir, 'round-1-shard-0'), 500);
      };
      expect(await makeParts(input, patient, tear)).toEqual(planned);
      expect(planned.every((count) => count === shards)).toBe(true);
      const toDir = join(world.now.dir, 'checkpoints', 'step-1');
      expect(await policyBytes(toDir)).toEqual(reference);
      expect((await worker().update(input)).policy.uri).toBe(fileUri(toDir));
      expect(parts).toBeGreaterThan(12);
      expect(existsSync(join(world.now.dir, 'updates'))).toBe(false);
    },
  );

  it.each([
    ['whole', {}],
    ['an adapter', { lora: { rank: 2, alpha: 4, targetModules: ['q_proj'] } }],
  ])(
    'with a critic, %s: two steps end in the same bits of both when every part is tried by workers that die',
    async (_, more) => {
      await aStep();
      const { store, dir } = world.now;
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
      const given = {
        policy: { base: qwen3Dir },
        task: { name: 'toy' },
        training: { shards: 2 },
        algorithm: {
          advantage: 'gae',
          lambd: 0.95,
          learningRate: 1e-3,
          microBatchTokens: 1024,
          critic: { learningRate: 1e-3, schedule: 'linear', ...more },
        },
      };
      const settings = resolveRunConfig(given, '/').algorithm;
      const stepIn = (runDir: string, step: number) => ({
        ...inputOf(2),
        runDir,
        step,
        algorithm: settings,
        policy:
          step === 1
            ? { uri: fileUri(qwen3Dir), version: 4 }
            : { uri: fileUri(join(runDir, 'checkpoints', 'step-1')), version: 5 },
      });
      const aside = join(dir, 'reference');
      for (const step of [1, 2]) expect(await makeParts(stepIn(aside, step), (part) => part(worker()))).toEqual([2, 2]);
      // Each part is done twice: by a worker that dies before it reports, and by the next one.
      const twice: By = async (part) => {
        await part(worker());
        return part(worker());
      };
      for (const step of [1, 2]) {
        await makeParts(stepIn(dir, step), twice);
        await worker().update(stepIn(dir, step));
      }
      const names = [
        `critic/${'lora' in more ? 'adapter_model' : 'model'}.safetensors`,
        'critic/optimizer.safetensors',
        'critic/longhaul.json',
        'model.safetensors',
        'optimizer.safetensors',
        'longhaul.json',
      ];
      const bytesIn = (runDir: string) =>
        Promise.all(
          names.map(async (name) =>
            createHash('sha256')
              .update(await readFile(join(runDir, 'checkpoints', 'step-2', name)))
              .digest('hex'),
          ),
        );
      expect(await bytesIn(dir)).toEqual(await bytesIn(aside));
      // The second step of both schedules.
      expect((await store.get<UpdateEntry>(keys.update(RUN, 2)))?.metrics).toMatchObject({
        'critic/critic_lr': 5e-4,
        'critic/critic_loss': expect.any(Number) as number,
      });
      expect(existsSync(join(dir, 'updates'))).toBe(false);
    },
  );

  it('with nothing to learn shares nothing: `update` alone makes the step', async () => {
    for (const task of [0, 1]) for (const k of [0, 1]) await ended(world.now.store, task, k, 1);
    const { rounds, outcome } = await carryOut(inputOf(2), worker);
    expect(rounds).toEqual([]);
    expect(outcome.record).toMatchObject({ groups: 0, trainedTokens: 0 });
    expect(await eventLines(world.now.store)).toEqual(Array.from({ length: 4 }, () => 'dropped zero-variance'));
  });

  it('that is asked for once more, late, leaves what was made of the step after it', async () => {
    await aStep();
    const first = inputOf(2);
    await carryOut(first, worker);
    const next = {
      ...first,
      step: 2,
      policy: { uri: fileUri(join(world.now.dir, 'checkpoints', 'step-1')), version: 5 },
    };
    const { dir, plan } = await worker().planUpdate(next);
    await worker().forwardBackward({ run: RUN, step: 2, dir, plan, round: 0, shard: 0 });
    await worker().update(first);
    expect(readdirSync(dir).sort()).toEqual(['plan', 'round-0-shard-0']);
    await carryOut(next, worker);
    expect(existsSync(join(world.now.dir, 'updates'))).toBe(false);
  });

  it('whose steps were not made is not trained whole instead', async () => {
    await aStep();
    await expect(worker().update(inputOf(2))).rejects.toThrow(/in 2 shards is not in/);
    expect(await world.now.store.get(keys.update(RUN, 1))).toBeUndefined();
  });

  it('of a run that ends half-way leaves no files', async () => {
    await aStep();
    const input = inputOf(2);
    const { dir, plan } = await worker().planUpdate(input);
    await worker().forwardBackward({ run: RUN, step: 1, dir, plan, round: 0, shard: 0 });
    const { store } = world.now;
    await store.putOnce(keys.run(RUN), {
      run: RUN,
      runDir: world.now.dir,
      seed: 1,
      startedAt: '2026-01-01T00:00:00.000Z',
      policy: { base: 'file:///base', parameters: 1, vocabulary: 1 },
      task: { name: 'toy', train: 2, heldOut: 1 },
    });
    const bookkeeping = orchestratorActivities({
      store,
      tasks: new TaskLoader(store),
      temporal: { address: 'a', namespace: 'n', ui: 'u' },
      describePolicy: async () => ({ parameters: 1, vocabulary: 1 }),
    });
    await bookkeeping.closeRun({ run: RUN, runDir: world.now.dir, status: 'cancelled' });
    expect(existsSync(join(world.now.dir, 'updates'))).toBe(false);
    // A late worker restores no files.
    await expect(worker().forwardBackward({ run: RUN, step: 1, dir, plan, round: 0, shard: 1 })).rejects.toMatchObject({
      type: 'PlanLost',
    });
    expect(existsSync(join(world.now.dir, 'updates'))).toBe(false);
  });

  it('is removed alone: a folder of other origin stays', async () => {
    const updates = join(world.now.dir, 'updates');
    for (const folder of ['step-1-0123456789ab', 'src', 'step-one'])
      mkdirSync(join(updates, folder), { recursive: true });
    await clearUpdates(world.now.dir);
    expect(readdirSync(updates).sort()).toEqual(['src', 'step-one']);
  });
});
