/**
 * Hunts files that depend on who wrote them, checkpoints that vanish while they are needed, and rollouts without an
 * end.
 */
import { fileUri } from '../../../protocol/policy-uri.ts';
import { taskKey } from '../../../protocol/task-key.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { someTasks } from '../../support/some-tasks.ts';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { OutcomeRecord, RunRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { checkpointDir, type RunSummary, summaryOf } from '../../../reports/run-summary.ts';
import type { StepRecord } from '../../../protocol/step-record.ts';
import { attemptOf, ended, eventLines, orchestratorActivities, putManifest, RUN, useWorld } from '../world.ts';

const world = useWorld();
const temporal = { address: 'here:7233', namespace: 'default', ui: 'http://here' };

function activities() {
  return orchestratorActivities({
    store: world.now.store,
    tasks: new TaskLoader(world.now.store),
    temporal,
    describePolicy: async () => ({ parameters: 1, vocabulary: 2 }),
  });
}
const folder = () => ({ run: RUN, runDir: world.now.dir });

const stepRecord = (step: number): StepRecord => ({
  step,
  policyVersion: step,
  rewardMean: 0.5,
  passRate: 0.25,
  groups: 1,
  valid: 2,
  masked: {},
  dropped: {},
  sampledTokens: 8,
  trainedTokens: 8,
  prefixBreaks: 0,
  seconds: { rollout: 2, train: 1, total: 3 },
  learningRate: 0.125,
  loss: 0.5,
  kl: 0.25,
  entropy: 1.5,
  gradNorm: 0.75,
  logprobDrift: { meanAbs: 0, maxAbs: 0.125 },
});

const recordStep = (step: number, keep = false) =>
  activities().recordStep({
    ...folder(),
    record: stepRecord(step),
    policy: { uri: fileUri(checkpointDir(world.now.dir, step)), version: step },
    sha256: `sha-${step}`,
    keep,
  });

const recordUnvaried = (step: number) =>
  activities().recordStep({
    ...folder(),
    record: { ...stepRecord(step), passRate: 0, groups: 0, groupRewards: { varied: 0, alike: 2 } },
    policy: { uri: fileUri(checkpointDir(world.now.dir, step)), version: step },
    sha256: `sha-${step}`,
    keep: false,
  });

const dispatch = (name: string, tasks: readonly string[], samples: number) =>
  activities().recordDispatched({ run: RUN, name, batch: `train/${RUN}/${name}`, tasks, samples });

/** Every file of the run's folder except the store's. */
function files(): Record<string, string> {
  const names = readdirSync(world.now.dir, { recursive: true, withFileTypes: true });
  const paths = names
    .filter((one) => one.isFile() && !one.parentPath.endsWith('store'))
    .map((one) => join(one.parentPath, one.name));
  return Object.fromEntries(paths.map((path) => [path, readFileSync(path, 'latin1')]));
}
const summaryFile = () => JSON.parse(readFileSync(join(world.now.dir, 'summary.json'), 'utf8')) as RunSummary;

beforeEach(async () => {
  await world.now.store.putOnce<RunRecord>(keys.run(RUN), {
    run: RUN,
    runDir: world.now.dir,
    seed: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    policy: { base: '/base', parameters: 1, vocabulary: 2 },
    task: { name: 'toy', train: 10, heldOut: 2 },
    tasks: someTasks,
  });
});

describe('recordStep', () => {
  it('twice, and at once, leaves the same files and nothing half-written', async () => {
    await ended(world.now.store, 0, 0, 1);
    await putManifest(world.now.store, [attemptOf().task]);
    await recordStep(1, true);
    const first = files();
    await Promise.all([recordStep(1, true), recordStep(1, true), recordStep(1, true)]);
    expect(files()).toEqual(first);
    expect(Object.keys(first).map((path) => path.slice(world.now.dir.length + 1))).toEqual(
      expect.arrayContaining(['metrics.jsonl', 'summary.json', 'trajectories/step-1.jsonl']),
    );
    expect(readFileSync(join(world.now.dir, 'metrics.jsonl'), 'utf8')).toBe(`${JSON.stringify(stepRecord(1))}\n`);
    expect(summaryFile()).toMatchObject({
      runId: RUN,
      status: 'running',
      steps: [stepRecord(1)],
      checkpoints: [{ step: 1, uri: fileUri(checkpointDir(world.now.dir, 1)), sha256: 'sha-1' }],
    });
  });

  it('keeps the checkpoints that are to be kept, the current policy and the one that it was made from', async () => {
    const there = () =>
      readdirSync(join(world.now.dir, 'checkpoints'))
        .map((name) => Number(name.slice('step-'.length)))
        .sort((a, b) => a - b);
    const left: Record<number, number[]> = {};
    for (const step of [1, 2, 3, 4, 5, 6]) {
      mkdirSync(checkpointDir(world.now.dir, step), { recursive: true });
      await recordStep(step, step === 2);
      left[step] = there();
    }
    expect(left).toEqual({ 1: [1], 2: [1, 2], 3: [2, 3], 4: [2, 3, 4], 5: [2, 4, 5], 6: [2, 5, 6] });
    await recordStep(5);
    expect(there()).toEqual([2, 5, 6]);
  });

  it('names the steps in which no group varied, and what to change', async () => {
    await recordStep(1);
    expect(summaryFile()).not.toHaveProperty('noGroupVaried');
    await recordUnvaried(2);
    const advice = [expect.stringMatching(/^no rollout passed: give easier tasks/) as string];
    expect(summaryFile()).toMatchObject({ noGroupVaried: { steps: [2], of: 2, advice } });
    const lines = readFileSync(join(world.now.dir, 'metrics.jsonl'), 'utf8').trim().split('\n');
    expect(JSON.parse(lines[1] ?? '')).toMatchObject({ step: 2, groupRewards: { varied: 0, alike: 2 } });
  });

  it('lists steps as numbers, not as text', async () => {
    for (const step of [2, 9, 10, 11]) await recordStep(step, true);
    expect(summaryFile().steps.map(({ step }) => step)).toEqual([2, 9, 10, 11]);
    expect(summaryFile().checkpoints.map(({ step }) => step)).toEqual([2, 9, 10, 11]);
  });

  it('leaves the policy that the run started from, wherever it is', async () => {
    const base = checkpointDir(world.now.dir, 0);
    mkdirSync(base, { recursive: true });
    for (const step of [1, 2, 3]) await recordStep(step);
    expect(existsSync(base)).toBe(true);
  });
});

describe('the trajectories of a step', () => {
  it('are the rollouts of that step alone', async () => {
    await ended(world.now.store, 0, 0, 1);
    await ended(world.now.store, 0, 1, 'sandbox-lost');
    await putManifest(world.now.store, [attemptOf().task], 3);
    const other = { ...attemptOf(), rollout: `train/${RUN}/step-10/${attemptOf().task}/0` };
    const outcome = await world.now.store.get<OutcomeRecord>(keys.outcome(attemptOf().rollout));
    await world.now.store.putOnce(keys.outcome(other.rollout), { ...outcome, rollout: other.rollout });
    await recordStep(1);
    const lines = readFileSync(join(world.now.dir, 'trajectories/step-1.jsonl'), 'utf8').trim().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as OutcomeRecord).rollout)).toEqual([
      attemptOf(0, 0).rollout,
      attemptOf(0, 1).rollout,
    ]);
  });
});

describe('an evaluation', () => {
  const tasks = [0, 1, 2, 3].map((i) => taskKey('toy', 'held-out', i));

  it('keeps failures in its denominator with reasons, separates families, and ends every rollout', async () => {
    await dispatch('eval-0-sampled', tasks, 1);
    await dispatch('eval-0-greedy', tasks, 1);
    const outcome = (rollout: string, passed: boolean) => ({
      rollout,
      task: tasks[0],
      passed,
      reward: Number(passed),
      status: 'graded',
    });
    const [sampled, greedy] = [`train/${RUN}/eval-0-sampled`, `train/${RUN}/eval-0-greedy`];
    await world.now.store.putOnce(keys.outcome(`${sampled}/${tasks[0]}/0`), outcome(`${sampled}/${tasks[0]}/0`, true));
    await world.now.store.putOnce(keys.outcome(`${sampled}/${tasks[1]}/0`), outcome(`${sampled}/${tasks[1]}/0`, false));
    const lost = {
      rollout: `${sampled}/${tasks[2]}/0`,
      task: tasks[2],
      passed: false,
      reward: null,
      status: 'failed',
      failure: 'sandbox-lost',
    };
    await world.now.store.putOnce(keys.outcome(lost.rollout), lost);
    for (const task of tasks)
      await world.now.store.putOnce(keys.outcome(`${greedy}/${task}/0`), outcome(`${greedy}/${task}/0`, true));
    for (const batch of [sampled, greedy]) await activities().recordBatch({ run: RUN, batch, tasks, samples: 1 });
    for (let i = 0; i < 2; i++) {
      expect(await activities().summariseEvaluation({ run: RUN, sampled, greedy })).toEqual({
        passRate: 0.25,
        gradedPassRate: 0.5,
        failed: { 'no-outcome': 1, 'sandbox-lost': 1 },
        greedyPassRate: 1,
        rollouts: 4,
        scores: { avgScore: 0.5, passAt1: 0.5, meanPositiveReward: 0.5 },
        byFamily: { even: { rollouts: 2, passRate: 0.5 }, odd: { rollouts: 2, passRate: 0 } },
      });
    }
    expect((await eventLines(world.now.store)).filter((line) => line !== 'dispatched').sort()).toEqual([
      ...Array<string>(6).fill('evaluated'),
      'masked no-outcome',
      'masked sandbox-lost',
    ]);
  });

  it('is the one before training, or those before and after: the last one counts', async () => {
    const evaluation = (passRate: number) => ({ passRate, greedyPassRate: null, rollouts: 2, byFamily: {} });
    await activities().recordEvaluation({ ...folder(), step: 0, evaluation: evaluation(0.25) });
    expect(summaryFile().evaluation).toMatchObject({ before: { passRate: 0.25 }, after: null });
    await activities().recordEvaluation({ ...folder(), step: 2, evaluation: evaluation(0.5) });
    await activities().recordEvaluation({ ...folder(), step: 10, evaluation: evaluation(0.75) });
    expect(summaryFile().evaluation).toMatchObject({ before: { passRate: 0.25 }, after: { passRate: 0.75 } });
    expect(summaryFile().evaluation.all.map(({ step }) => step)).toEqual([0, 2, 10]);
  });
});

describe('closeRun', () => {
  it('of a cancelled run masks rollouts without an end, with the reason', async () => {
    await dispatch('step-1', [attemptOf().task], 3);
    await ended(world.now.store, 0, 0, 1);
    await activities().recordBatch({ run: RUN, batch: `train/${RUN}/step-1`, tasks: [attemptOf().task], samples: 1 });
    await activities().summariseEvaluation({ run: RUN, sampled: `train/${RUN}/step-1`, greedy: null });
    for (let i = 0; i < 2; i++) await activities().closeRun({ ...folder(), status: 'cancelled', message: 'stopped' });
    // Only at its own end: the run may be started again (run-begun-again.test.ts).
    expect(await eventLines(world.now.store)).toEqual(['dispatched', 'dispatched', 'dispatched', 'evaluated']);
    const accounting = { dispatched: 3, trained: 0, masked: 2, dropped: 0, evaluated: 1, duplicated: 0, lost: 0 };
    expect(summaryFile()).toMatchObject({ status: 'cancelled', message: 'stopped', accounting });
    expect(readFileSync(join(world.now.dir, 'learning-curve.svg'), 'utf8')).toMatch(/^<svg [^]*<\/svg>\n$/);
  });

  it('of a completed run masks nothing: rollouts without an end are lost, and are reported', async () => {
    await dispatch('step-1', [attemptOf().task], 2);
    expect((await summaryOf(RUN, world.now.store, temporal))?.accounting.lost).toBe(0);
    await activities().closeRun({ ...folder(), status: 'completed' });
    expect(summaryFile()).toMatchObject({ status: 'completed', accounting: { dispatched: 2, masked: 0, lost: 2 } });
  });

  it('counts once: the first end stays', async () => {
    await activities().closeRun({ ...folder(), status: 'completed' });
    await activities().closeRun({ ...folder(), status: 'failed', message: 'late' });
    expect(summaryFile()).toMatchObject({ status: 'completed' });
  });
});

describe('recordFailures', () => {
  it('records the end of a rollout that was never graded, and leaves a graded one', async () => {
    const { rollout, task } = attemptOf(0, 0);
    await ended(world.now.store, 0, 1, 1);
    const graded = await world.now.store.get(keys.outcome(attemptOf(0, 1).rollout));
    const failed = {
      task,
      status: 'failed' as const,
      attempt: 3,
      turns: 2,
      failure: 'sandbox-lost' as const,
      message: 'gone',
    };
    await activities().recordFailures({
      run: RUN,
      failures: [
        { ...failed, rollout },
        { ...failed, rollout: attemptOf(0, 1).rollout },
      ],
    });
    expect(await world.now.store.get(keys.outcome(rollout))).toEqual({
      rollout,
      task,
      attempt: 3,
      turns: 2,
      status: 'failed',
      reward: null,
      passed: false,
      finish: null,
      failure: 'sandbox-lost',
      reason: 'gone',
    });
    expect(await world.now.store.get(keys.outcome(attemptOf(0, 1).rollout))).toEqual(graded);
  });
});

describe('a run whose rollouts overlap with its updates', () => {
  const running = (version: number) => ({
    number: 9,
    policy: { uri: fileUri(checkpointDir(world.now.dir, version)), version },
    lastStep: version + 3,
  });
  const recordAsync = (step: number, batches?: readonly string[]) =>
    activities().recordStep({
      ...folder(),
      record: { ...stepRecord(step), ...(batches ? { batches } : {}) },
      policy: { uri: fileUri(checkpointDir(world.now.dir, step)), version: step },
      sha256: 'x',
      keep: false,
      overlap: { begun: 9, running: [running(Math.max(0, step - 2))], ended: [] },
    });

  it('keeps the checkpoints that rollouts may still sample from', async () => {
    for (const step of [1, 2, 3, 4, 5, 6]) {
      mkdirSync(checkpointDir(world.now.dir, step), { recursive: true });
      await recordAsync(step);
    }
    expect(readdirSync(join(world.now.dir, 'checkpoints')).sort()).toEqual(['step-3', 'step-4', 'step-5', 'step-6']);
  });

  it('writes the trajectories of the groups that a step trained on', async () => {
    const outcome = { task: attemptOf().task, attempt: 1, turns: 0, status: 'graded', reward: 1 };
    for (const group of ['group-1', 'group-2', 'group-3']) {
      const rollout = `train/${RUN}/${group}/${attemptOf().task}/0`;
      await world.now.store.putOnce(keys.outcome(rollout), { ...outcome, rollout });
      await activities().recordBatch({
        run: RUN,
        batch: `train/${RUN}/${group}`,
        tasks: [attemptOf().task],
        samples: 1,
      });
    }
    await recordAsync(1, ['group-1', 'group-3']);
    const lines = readFileSync(join(world.now.dir, 'trajectories/step-1.jsonl'), 'utf8').trim().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as OutcomeRecord).rollout.split('/')[2])).toEqual([
      'group-1',
      'group-3',
    ]);
  });

  it('drops, when it is completed, only the rollouts that no step waits for', async () => {
    await dispatch('group-1', ['a'], 2);
    await dispatch('group-12', ['b'], 1);
    await activities().closeRun({ ...folder(), status: 'completed', untrained: [`train/${RUN}/group-1`] });
    expect(await eventLines(world.now.store, 'dropped')).toEqual(['dropped run-completed', 'dropped run-completed']);
    expect(summaryFile().accounting).toMatchObject({ dispatched: 3, dropped: 2, lost: 1 });
  });
});
