/**
 * Hunts updates that are made twice or reported before they are recorded, and ends of rollouts that contradict each
 * other.
 */
import { fileUri, pathOf } from '../../../protocol/policy-uri.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { someTasks } from '../../support/some-tasks.ts';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { withFailureMapping } from '../../../activities/failure-mapping.ts';
import type { GenerateRecord, RunRecord, UpdateEntry } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { summaryOf } from '../../../reports/run-summary.ts';
import { updateOnce } from '../../../activities/update/update.ts';
import type { Store } from '../../../store/store.ts';
import { readCheckpointRecord } from '../../../trainer/checkpoints/checkpoint.ts';
import type { UpdateMetrics } from '../../../protocol/algorithm.ts';
import { loadWeights, weightsDigest } from '../../../trainer/model/weights.ts';
import { someMetrics, trainingBy } from '../scripted-parts.ts';
import {
  algorithm,
  attemptOf,
  dyingAt,
  ended,
  eventLines,
  orchestratorActivities,
  putManifest,
  RUN,
  useWorld,
} from '../world.ts';

const world = useWorld();
const qwen3Dir = join(import.meta.dirname, '../../vectors/models/qwen3-tiny');
const temporal = { address: 'a', namespace: 'n', ui: 'u' };

function inputOf(step: number, steps: number) {
  return {
    run: RUN,
    runDir: world.now.dir,
    step,
    steps,
    batches: [`train/${RUN}/step-1`],
    samples: 2,
    algorithm,
    policy: { uri: fileUri(qwen3Dir), version: 4 },
  };
}

beforeEach(async () => {
  const tasks = [0, 1].map((task) => attemptOf(task).task);
  await putManifest(world.now.store, tasks);
});

const update = (store: Store = world.now.store, step = 1, steps = 2) =>
  updateOnce(inputOf(step, steps), store, trainingBy(world.now.engine), () => undefined);

/** A group that teaches something, and one with a failure. */
async function aStep(): Promise<void> {
  const { store } = world.now;
  for (const [k, reward] of [1, 0].entries()) {
    await ended(store, 0, k, reward);
    const turn = {
      version: 4,
      appended: [1, 2],
      reset: false,
      sampled: [3, 0],
      logprobs: [-1, -1],
      end: 'stop' as const,
    };
    await store.putOnce<GenerateRecord>(keys.generate(attemptOf(0, k), 1), {
      ...turn,
      parsed: { kind: 'no-call', content: '' },
    });
  }
  await ended(store, 1, 0, 1);
  await ended(store, 1, 1, 'sandbox-lost');
}

const ENDS = ['trained v5', 'trained v5', 'masked sandbox-lost', 'dropped group-too-small'];

describe('an update', () => {
  it('trains on the step’s data, and records the fate of every rollout', async () => {
    await aStep();
    const { policy, sha256, record } = await update();
    const toDir = join(world.now.dir, 'checkpoints', 'step-1');
    const { learningRate } = algorithm;
    expect(world.now.engine.updates.length).toBe(1);
    expect(world.now.engine.updates[0]).toMatchObject({
      fromDir: qwen3Dir,
      toDir,
      toVersion: 5,
      algorithm: { ...algorithm, learningRate },
    });
    expect(world.now.engine.updates[0]?.data.length).toBe(2);
    expect({ policy, sha256 }).toEqual({ policy: { uri: fileUri(toDir), version: 5 }, sha256: someMetrics.sha256 });
    const { loss, kl, entropy, gradNorm, clipFraction, trainedTokens, logprobDrift } = someMetrics;
    expect(record).toEqual({
      step: 1,
      policyVersion: 5,
      rewardMean: 2 / 3,
      passRate: 2 / 3,
      groups: 1,
      groupRewards: { varied: 1, alike: 0 },
      valid: 3,
      masked: { 'sandbox-lost': 1 },
      dropped: { 'group-too-small': 1 },
      sampledTokens: 4,
      prefixBreaks: 0,
      learningRate,
      loss,
      kl,
      entropy,
      gradNorm,
      clipFraction,
      trainedTokens,
      logprobDrift,
      staleness: { mean: 0, max: 0, offPolicy: 0 },
    });
    expect((await eventLines(world.now.store)).sort()).toEqual(ENDS.toSorted());
    const { metrics } = (await world.now.store.get<UpdateEntry>(keys.update(RUN, 1)))!;
    expect(metrics).toMatchObject({
      'reward/avg_pass_at_2': 1,
      'generate/max_num_tokens': 2,
      'generate/tokens_per_turn_mean': 2,
      'policy/ratio_mean': 1,
    });
  });

  it('takes KL to the base policy of its run, with a weight that follows from the step before', async () => {
    await aStep();
    const { store, dir, engine } = world.now;
    const kl = {
      in: 'loss',
      estimator: 'k3',
      coefficient: 0.1,
      controller: 'adaptive',
      target: 0.1,
      horizon: 100,
    } as const;
    const step = (n: number) =>
      updateOnce({ ...inputOf(n, 4), algorithm: { ...algorithm, kl } }, store, trainingBy(engine), () => undefined);
    await expect(step(1)).rejects.toThrow(/not in the store/);
    await store.putOnce<RunRecord>(keys.run(RUN), {
      run: RUN,
      runDir: dir,
      seed: 1,
      startedAt: '2026-01-01T00:00:00.000Z',
      policy: { base: 'file:///base', parameters: 1, vocabulary: 1 },
      task: { name: 'toy', train: 2, heldOut: 1 },
      tasks: someTasks,
    });
    engine.onUpdate = async () => ({
      ...someMetrics,
      metrics: { 'policy/kl_coefficient': 0.1, 'policy/policy_kl': 0.3, 'policy/num_sequences': 50 },
    });
    await step(1);
    await step(2);
    expect(
      engine.updates.map(({ referenceDir, algorithm: { kl: given } }) => [referenceDir, given?.coefficient.toFixed(6)]),
    ).toEqual([
      ['/base', '0.100000'],
      ['/base', '0.110000'],
    ]);
  });

  it('takes the learning rate of its step from the schedule over the run', async () => {
    await aStep();
    const { record } = await update(world.now.store, 3, 4);
    expect(record.learningRate).toBeCloseTo(algorithm.learningRate / 2, 12);
    expect(world.now.engine.updates[0]?.algorithm.learningRate).toBe(record.learningRate);
  });

  it('that is repeated returns the record, trains nothing and appends nothing', async () => {
    await aStep();
    const first = await update();
    const events = await world.now.store.events(RUN);
    expect(await update()).toEqual(first);
    expect(world.now.engine.updates.length).toBe(1);
    expect(await world.now.store.events(RUN)).toEqual(events);
    expect(await world.now.store.repeats()).toEqual({ update: 0 });
  });

  it('that was killed between its record and its events appends them when it is retried', async () => {
    await aStep();
    await expect(update(dyingAt(world.now.store, 'append'))).rejects.toThrow('killed here');
    expect(await eventLines(world.now.store)).toEqual([]);
    await update();
    expect((await eventLines(world.now.store)).sort()).toEqual(ENDS.toSorted());
    expect(world.now.engine.updates.length).toBe(1);
  });

  it('that failed in the engine records nothing', async () => {
    await aStep();
    world.now.engine.onUpdate = () => Promise.reject(new Error('diverged'));
    await expect(update()).rejects.toThrow('diverged');
    expect(await world.now.store.get(keys.update(RUN, 1))).toBeUndefined();
    expect(await eventLines(world.now.store)).toEqual([]);
  });

  it('with no graded rollout at all is refused for good, with the reasons, and ends every rollout', async () => {
    for (const [task, k] of [
      [0, 0],
      [0, 1],
      [1, 0],
    ] as const)
      await ended(world.now.store, task, k, 'sandbox-lost');
    const refused: unknown = await withFailureMapping(() => update()).catch((error: unknown) => error);
    expect(refused).toMatchObject({
      type: 'NoValidRollouts',
      nonRetryable: true,
      cause: { step: 1, masked: { 'sandbox-lost': 3, 'no-outcome': 1 } },
    });
    expect(await world.now.store.get(keys.update(RUN, 1))).toBeUndefined();
    expect(world.now.engine.updates).toEqual([]);
    expect((await eventLines(world.now.store)).sort()).toEqual([
      'masked no-outcome',
      'masked sandbox-lost',
      'masked sandbox-lost',
      'masked sandbox-lost',
    ]);
  });

  it('with no graded rollout at all carries the policy over if its run can be paused', async () => {
    for (const [task, k] of [
      [0, 0],
      [0, 1],
      [1, 0],
    ] as const)
      await ended(world.now.store, task, k, 'sandbox-lost');
    const { store, engine } = world.now;
    const { policy, sha256, record } = await updateOnce(
      { ...inputOf(1, 4), mayBeUngraded: true },
      store,
      trainingBy(engine),
      () => undefined,
    );
    expect(engine.updates).toEqual([]);
    expect(await readCheckpointRecord(pathOf(policy.uri))).toMatchObject({ version: 5, sha256 });
    expect(weightsDigest(await loadWeights(qwen3Dir))).toBe(sha256);
    expect(record).toMatchObject({ valid: 0, groups: 0, passRate: 0, masked: { 'sandbox-lost': 3, 'no-outcome': 1 } });
    expect((await eventLines(store)).sort()).toEqual([
      'masked no-outcome',
      'masked sandbox-lost',
      'masked sandbox-lost',
      'masked sandbox-lost',
    ]);
  });

  it('with nothing to train carries the policy over under its next version', async () => {
    for (const task of [0, 1]) for (const k of [0, 1]) await ended(world.now.store, task, k, 1);
    const { policy, sha256, record } = await update();
    expect(world.now.engine.updates).toEqual([]);
    expect(policy.version).toBe(5);
    expect(weightsDigest(await loadWeights(pathOf(policy.uri)))).toBe(sha256);
    expect(weightsDigest(await loadWeights(qwen3Dir))).toBe(sha256);
    expect(await readCheckpointRecord(pathOf(policy.uri))).toMatchObject({ version: 5, sha256 });
    expect(record).toMatchObject({ groups: 0, valid: 4, trainedTokens: 0, dropped: { 'zero-variance': 4 } });
  });
});

/** Why: a worker without a connection to the server continues its work, while the workflow has moved on. */
describe('a rollout ends once', () => {
  async function accounting() {
    await world.now.store.putOnce<RunRecord>(keys.run(RUN), {
      run: RUN,
      runDir: world.now.dir,
      seed: 1,
      startedAt: '2026-01-01T00:00:00.000Z',
      policy: { base: 'file:///', parameters: 1, vocabulary: 1 },
      task: { name: 'toy', train: 2, heldOut: 1 },
      tasks: someTasks,
    });
    return (await summaryOf(RUN, world.now.store, temporal))?.accounting;
  }

  function orchestrator() {
    const { store } = world.now;
    return orchestratorActivities({
      store,
      tasks: new TaskLoader(store),
      temporal,
      describePolicy: async () => ({ parameters: 1, vocabulary: 1 }),
    });
  }

  async function dispatched(): Promise<void> {
    const at = new Date().toISOString();
    const rollouts = [0, 1].flatMap((task) => [0, 1].map((k) => attemptOf(task, k).rollout));
    await world.now.store.append(
      rollouts.map((rollout) => ({ run: RUN, rollout, attempt: 1, event: 'dispatched', at })),
    );
  }

  it('also if the run is cancelled while its update runs: the recorded fates stay', async () => {
    await dispatched();
    await aStep();
    const held = Promise.withResolvers<UpdateMetrics>();
    world.now.engine.onUpdate = () => held.promise;
    const updating = update();
    await accounting();
    await orchestrator().closeRun({ run: RUN, runDir: world.now.dir, status: 'cancelled' });
    held.resolve(someMetrics);
    await updating;
    expect(await accounting()).toEqual({
      dispatched: 4,
      trained: 2,
      masked: 1,
      dropped: 1,
      evaluated: 0,
      duplicated: 0,
      lost: 0,
    });
    expect(await eventLines(world.now.store, 'end-refused')).toEqual([]);
  });

  it('also where an outcome appears between an update and its retry', async () => {
    await dispatched();
    await aStep();
    await accounting();
    const { store } = world.now;
    const late = attemptOf(1, 1).rollout;
    const withoutOutcome = new Proxy(store, {
      get: (target, name) => {
        const real = Reflect.get(target, name) as (...given: unknown[]) => unknown;
        return (...given: unknown[]) =>
          given[0] === keys.outcome(late) ? Promise.resolve(undefined) : real.apply(target, given);
      },
    });
    await update(withoutOutcome);
    await update();
    const entry = await store.get<UpdateEntry>(keys.update(RUN, 1));
    expect(entry?.record.masked).toEqual({ 'no-outcome': 1 });
    expect(await eventLines(store, 'masked')).toEqual(['masked no-outcome']);
    await update();
    expect(await eventLines(store, 'end-refused')).toEqual(['end-refused masked sandbox-lost']);
    expect(await accounting()).toMatchObject({ trained: 2, masked: 1, dropped: 1, duplicated: 1 });
  });
});
