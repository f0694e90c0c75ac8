/**
 * Hunts pauses that count in a step's seconds, and work during a pause that does not count. The server is real,
 * activities are scripted. Nothing is compared with a speed: only with how long this test itself delayed the work.
 */
import { ApplicationFailure } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { BatchResult } from '../../../protocol/batch.ts';
import type { TrainStatus } from '../../../protocol/train-status.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const world = useWorkflowWorld();
/** Longer than everything else in a run of one step: all wait for it beside each other. */
const PAUSE_MS = 16_000;
const config = (run: string, over: object = {}) => ({
  run,
  policy: { base: '/p' },
  task: { name: 't', train: 10 },
  steps: 1,
  batch: { tasks: 1, samples: 2 },
  evaluation: { tasks: 1, greedy: false },
  dispatcher: { type: 'bounded', maxParallelAgents: 4 },
  ...over,
});
const statusOf = (run: string) => world.now.client.workflow.getHandle(`train/${run}`).query<TrainStatus>('status');

/** Milliseconds for which the run is paused, measured from outside: a lower bound. */
async function pauseFor(run: string): Promise<number> {
  const handle = world.now.client.workflow.getHandle(`train/${run}`);
  await handle.signal('pause');
  await expect.poll(async () => (await statusOf(run)).phase, { interval: 50 }).toBe('paused');
  const since = performance.now();
  await sleep(PAUSE_MS);
  const stood = performance.now() - since;
  await handle.signal('resume');
  return stood;
}

async function secondsOf(run: string) {
  const [step] = (await statusOf(run)).recent;
  if (!step) throw new Error('No step is told of');
  return step.seconds;
}

it.concurrent.each(['sync', 'one-step-off', 'async'] as const)(
  '%s: the time for which a run is paused during its rollouts does not count in its step',
  async (mode) => {
    const acting = Promise.withResolvers<void>();
    world.part(`train/${mode}`, {
      before: (activity, { rollout = '' }) => {
        if (activity === 'agentRun' && !rollout.includes('eval')) acting.resolve();
      },
    });
    const begun = performance.now();
    const handle = await world.start('train', `train/${mode}`, config(mode, { training: { mode } }));
    await acting.promise;
    const stood = await pauseFor(mode);
    await handle.result();
    const wall = performance.now() - begun;
    const { total, rollout } = await secondsOf(mode);
    expect(total * 1000).toBeLessThan(wall - stood);
    expect(rollout).toBeLessThanOrEqual(total);
  },
);

it.concurrent('an update that runs during a pause counts with its full time', async () => {
  const [updating, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  world.part('train/updating', {
    before: (activity) => {
      if (activity === 'update') {
        updating.resolve();
        return held.promise;
      }
      return undefined;
    },
  });
  const handle = await world.start('train', 'train/updating', config('updating'));
  await updating.promise;
  const stood = await pauseFor('updating');
  held.resolve();
  await handle.result();
  const { train, total } = await secondsOf('updating');
  expect(train * 1000).toBeGreaterThan(stood);
  expect(total).toBeGreaterThanOrEqual(train);
});

it.concurrent('work that failed and was repeated after a resume does not count the pause', async () => {
  let failing = true;
  world.part('train/mended', {
    before: (activity) => {
      if (activity === 'update' && failing)
        throw ApplicationFailure.create({ message: 'the disk is full', nextRetryDelay: '20ms' });
    },
  });
  const begun = performance.now();
  const handle = await world.start('train', 'train/mended', config('mended'));
  await expect.poll(async () => (await statusOf('mended')).tripped, { interval: 200 }).toBeTruthy();
  const since = performance.now();
  await sleep(PAUSE_MS);
  const stood = performance.now() - since;
  failing = false;
  await handle.signal('resume');
  await handle.result();
  expect((await secondsOf('mended')).total * 1000).toBeLessThan(performance.now() - begun - stood);
});

it.concurrent('a batch that continues in a new history while it is paused does not count the pause', async () => {
  const begunAt = Date.now() - 500_000;
  const progress = {
    begunAt,
    stoodMs: 450_000,
    started: 0,
    paused: true,
    sampling: { begun: 0, ended: 0, varied: 0 },
    places: { waiting: [], init: [], ready: [], 'agent-run': [], collected: [], reward: [] },
    ledger: { ended: 0, graded: 0, passed: 0, rewardSum: 0, failures: {}, groups: [] },
    admitted: [],
    givenUp: [],
  };
  const input = {
    run: 'b',
    name: 'step-1',
    step: 1,
    tasks: ['t-train-0'],
    samples: 1,
    policy: { uri: 'file:///p', version: 1 },
    agent: { maxTurns: 5, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
    seed: 1,
    dispatcher: { type: 'batch' },
  };
  const handle = await world.start('batch', 'train/b/step-1', input, progress);
  const since = performance.now();
  await sleep(PAUSE_MS);
  const stood = performance.now() - since;
  await handle.signal('resume');
  const { seconds } = (await handle.result()) as BatchResult;
  expect(seconds * 1000).toBeLessThan(Date.now() - begunAt - 450_000 - stood);
});
