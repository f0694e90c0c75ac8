/** Hunts curves without a step, wrong times, and files that a reader must open again. */
import { someTasks } from '../../support/some-tasks.ts';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import type { EvaluationEntry, RunRecord, StepEntry } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { writeRunFiles } from '../../../activities/orchestrator/run-folder.ts';
import { scalarEvent, type ScalarEvent, versionEvent, tfRecord } from '../../../reports/tensorboard/event-file.ts';
import { tensorboardFile } from '../../../reports/tensorboard/write-tensorboard.ts';
import { RUN, useWorld } from '../../activities/world.ts';

const world = useWorld();
const startedAt = '2026-01-01T00:00:00.900Z';
const begun = Date.parse(startedAt) / 1000;
const path = () => tensorboardFile(world.now.dir, startedAt);
const write = () => writeRunFiles(RUN, world.now.dir, world.now.store, { address: '', namespace: '', ui: '' });
const fileOf = (events: readonly ScalarEvent[]) =>
  Buffer.concat([versionEvent(begun), ...events.map(scalarEvent)].map(tfRecord)).toString('hex');

async function stepped(step: number): Promise<void> {
  const counts = { groups: 1, valid: 2, masked: {}, dropped: {}, trainedTokens: 4, prefixBreaks: 0 };
  await world.now.store.putOnce<StepEntry>(keys.step(RUN, step), {
    policy: { uri: 'file:///', version: step },
    sha256: '',
    keep: false,
    record: {
      ...counts,
      step,
      policyVersion: step,
      rewardMean: 0.5,
      passRate: 0.25,
      sampledTokens: 64,
      seconds: { rollout: 8, train: 4, total: 13 },
      learningRate: 0.25,
      loss: -0.5,
      kl: 0.125,
      entropy: 1.5,
      gradNorm: 2,
      logprobDrift: { meanAbs: 0, maxAbs: 0.0625 },
    },
  });
}
async function evaluated(step: number, greedyPassRate: number | null): Promise<void> {
  const evaluation = { passRate: 0.75, greedyPassRate, rollouts: 2, byFamily: {} };
  await world.now.store.putOnce<EvaluationEntry>(keys.evaluation(RUN, step), { step, evaluation });
}

const scalarsOfStep: ScalarEvent['scalars'] = [
  ['reward/mean', 0.5],
  ['reward/pass_rate', 0.25],
  ['policy/loss', -0.5],
  ['policy/kl', 0.125],
  ['policy/entropy', 1.5],
  ['policy/grad_norm', 2],
  ['policy/learning_rate', 0.25],
  ['policy/logprob_drift_max', 0.0625],
  ['timing/rollout', 8],
  ['timing/train', 4],
  ['tokens/sampled', 64],
];

beforeEach(async () => {
  await world.now.store.putOnce<RunRecord>(keys.run(RUN), {
    run: RUN,
    runDir: world.now.dir,
    seed: 1,
    startedAt,
    policy: { base: '', parameters: 1, vocabulary: 1 },
    task: { name: 'toy', train: 10, heldOut: 2 },
    tasks: someTasks,
  });
});

it('writes steps and evaluations in their order, at the time when their last rollout ended', async () => {
  const end = (batch: string, k: number, seconds: number) => ({
    run: RUN,
    rollout: `train/${RUN}/${batch}/toy-train-0/${k}`,
    attempt: 1,
    event: 'trained' as const,
    at: new Date((begun + seconds) * 1000).toISOString(),
  });
  await world.now.store.append([
    end('step-1', 0, 20),
    end('step-1', 1, 30),
    { ...end('step-1', 1, 40), event: 'turn' },
    end('step-10', 0, 99),
  ]);
  await world.now.store.append([{ ...end('eval-0-sampled', 0, 10), event: 'evaluated' }]);
  await evaluated(1, null);
  await stepped(1);
  await world.now.store.putOnce(keys.update(RUN, 1), {
    record: { step: 1 },
    metrics: { 'policy/clip_ratio': 0.5, 'policy/grad_norm': 2 },
  });
  await evaluated(0, 0.5);
  await write();
  expect(readFileSync(path()).toString('hex')).toBe(
    fileOf([
      {
        wallTime: begun + 10,
        step: 0,
        scalars: [
          ['eval/pass_rate', 0.75],
          ['eval/greedy_pass_rate', 0.5],
        ],
      },
      { wallTime: begun + 30, step: 1, scalars: [...scalarsOfStep, ['policy/clip_ratio', 0.5]] },
      { wallTime: begun, step: 1, scalars: [['eval/pass_rate', 0.75]] },
    ]),
  );
  expect(readdirSync(dirname(path()))).toEqual([`events.out.tfevents.${Math.floor(begun)}.longhaul`]);
});

it('appends to the file that a TensorBoard has open, and does not change it without new events', async () => {
  await write();
  const { ino } = statSync(path());
  for (const step of [1, 2, 3]) {
    await stepped(step);
    await Promise.all([write(), write()]);
    const steps = Array.from({ length: step }, (_, i) => ({ wallTime: begun, step: i + 1, scalars: scalarsOfStep }));
    expect(readFileSync(path()).toString('hex')).toBe(fileOf(steps));
  }
  expect(statSync(path()).ino).toBe(ino);
});

it('completes a file that a killed writer left incomplete, and replaces a file with other content', async () => {
  await stepped(1);
  await write();
  const whole = readFileSync(path());
  writeFileSync(path(), whole.subarray(0, whole.length - 5));
  await write();
  expect(readFileSync(path())).toEqual(whole);
  writeFileSync(path(), 'something else');
  await write();
  expect(readFileSync(path())).toEqual(whole);
  expect(readdirSync(dirname(path())).length).toBe(1);
});

it("shows the scores of evaluations and the times of rollouts under SkyRL's names, in metrics.jsonl too", async () => {
  const event = (name: 'started' | 'graded', seconds: number) => ({
    run: RUN,
    rollout: `train/${RUN}/step-1/toy-train-0/0`,
    attempt: 1,
    event: name,
    at: new Date((begun + seconds) * 1000).toISOString(),
  });
  await world.now.store.append([event('started', 1), event('graded', 4)]);
  await stepped(1);
  const evaluation = {
    passRate: 0.5,
    greedyPassRate: null,
    rollouts: 2,
    byFamily: {},
    scores: { avgScore: 0.25, passAt1: 0.75, meanPositiveReward: 0.5 },
  };
  await world.now.store.putOnce<EvaluationEntry>(keys.evaluation(RUN, 1), { step: 1, evaluation });
  await write();
  const [line = ''] = readFileSync(join(world.now.dir, 'metrics.jsonl'), 'utf8').split('\n');
  const scores = { 'eval/all/avg_score': 0.25, 'eval/all/pass_at_1': 0.75, 'eval/all/mean_positive_reward': 0.5 };
  expect((JSON.parse(line) as { metrics: object }).metrics).toMatchObject({
    'generate/trajectory_time_completion_mean': 3,
    ...scores,
  });
  const written = readFileSync(path()).toString('latin1');
  for (const name of ['generate/trajectory_time_completion_p90', ...Object.keys(scores)])
    expect(written).toContain(name);
});
