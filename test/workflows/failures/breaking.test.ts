/**
 * Hunts a run that continues without its machines, or that ends because of them: rollouts fail alike, the run is paused
 * with a reason and a remedy, and continues when it is resumed. The server is real, activities are scripted.
 */
import { ApplicationFailure } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { openedConfig } from '../../support/some-tasks.ts';
import type { TrainStatus } from '../../../protocol/train-status.ts';
import { standstill } from '../../support/standstill.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const world = useWorkflowWorld();
const down = () => ApplicationFailure.nonRetryable('connection refused', 'EndpointUnavailable');
const details = (id: string) => world.details(id);
const finish = () => 'finish' as const;

it('a run whose rollouts fail alike is paused, shows why and what to do, and continues when it is resumed', async () => {
  let broken = true;
  world.script = {
    turn: finish,
    before: (activity, { rollout }) => {
      if (activity === 'generate' && broken && rollout?.includes('/step-1/')) throw down();
    },
  };
  const config = {
    run: 'b',
    policy: { base: '/p' },
    task: { name: 't', train: 10 },
    steps: 1,
    batch: { tasks: 5, samples: 2 },
    evaluation: { tasks: 1, greedy: false },
    dispatcher: { type: 'bounded', maxParallelAgents: 2 },
    breaker: { maxConsecutiveFailures: 3 },
  };
  const handle = await world.start('train', 'train/b', config);
  const status = () => handle.query<TrainStatus>('status');
  await expect
    .poll(async () => (await status()).tripped)
    .toMatchObject({ failure: 'endpoint-unavailable', failed: 3, of: 3 });
  expect(await status()).toMatchObject({ phase: 'paused', pauseAt: 'turn' });
  expect(await details('train/b')).toMatch(
    /circuit breaker: 3 of the last 3 rollouts failed as endpoint-unavailable \(connection refused\); check whether the server runs.*npx longhaul resume/,
  );
  await standstill(world);
  const begun = world.now.log.calls.filter(
    ({ activity, rollout }) => activity === 'prepare' && rollout.includes('/step-1/'),
  ).length;
  expect(begun).toBeLessThan(10);
  broken = false;
  await handle.signal('resume');
  expect((await status()).tripped).toBeUndefined();
  expect(await handle.result()).toMatchObject({ steps: 1 });
});

it('a step of which nothing was graded leaves the policy as it was, and the run waits for somebody to look', async () => {
  world.script = {
    turn: finish,
    before: (activity, { rollout }) => {
      if (activity === 'generate' && rollout?.includes('/step-1/')) throw down();
    },
    update: ({ step, mayBeUngraded }) =>
      step === 1 && mayBeUngraded ? { valid: 0, masked: { 'endpoint-unavailable': 3, stale: 1 } } : {},
  };
  const config = {
    run: 'u',
    policy: { base: '/p' },
    task: { name: 't', train: 10 },
    steps: 2,
    batch: { tasks: 2, samples: 2 },
    evaluation: { tasks: 1, greedy: false },
  };
  const handle = await world.start('train', 'train/u', config);
  const status = () => handle.query<TrainStatus>('status');
  await expect
    .poll(async () => (await status()).tripped)
    .toMatchObject({ failure: 'endpoint-unavailable', failed: 3, of: 4 });
  expect(await status()).toMatchObject({ phase: 'paused', step: 1, policyVersion: 1, recent: [{ valid: 0 }] });
  expect(await details('train/u')).toMatch(
    /3 of the last 4 rollouts failed as endpoint-unavailable \(no rollout of step 1 was graded/,
  );
  expect(world.count('update')).toBe(1);
  await handle.signal('resume');
  expect(await handle.result()).toMatchObject({ steps: 2 });
  // Started again from its records, it goes through that step once more: an operator knows of it already.
  world.script = { ...world.script, before: () => undefined, recorded: () => 1 };
  expect(await (await world.start('train', 'train/u', config)).result()).toMatchObject({ steps: 2 });
});

/**
 * One rollout after the other; `fails` returns for each of training's, in the order of their starts, whether it fails.
 */
function oneByOne(run: string, fails: (nth: number) => boolean, over: object = {}) {
  const known: string[] = [];
  world.script = {
    turn: finish,
    before: (activity, { rollout = '' }) => {
      if (activity !== 'generate' || !rollout.includes('/step-')) return;
      if (!known.includes(rollout)) known.push(rollout);
      if (fails(known.indexOf(rollout))) throw down();
    },
  };
  return {
    run,
    policy: { base: '/p' },
    task: { name: 't', train: 20 },
    steps: 3,
    batch: { tasks: 2, samples: 2 },
    evaluation: { tasks: 1, greedy: false },
    dispatcher: { type: 'bounded', maxParallelAgents: 1 },
    ...over,
  };
}

it.each(['sync', 'one-step-off'])(
  'a run (%s) is paused by failures that form a row only across two of its steps, in the middle of the second one',
  async (mode) => {
    const config = oneByOne(`row-${mode}`, (nth) => nth >= 2 && nth < 6, {
      training: { mode },
      breaker: { maxConsecutiveFailures: 3, share: 1 },
    });
    const handle = await world.start('train', `train/row-${mode}`, config);
    const status = () => handle.query<TrainStatus>('status');
    await expect
      .poll(async () => (await status()).tripped)
      .toMatchObject({ failure: 'endpoint-unavailable', failed: 3, of: 3, message: 'connection refused' });
    expect(
      world.now.log.calls.filter(({ activity, rollout }) => activity === 'prepare' && rollout.includes('/step-2/'))
        .length,
    ).toBeLessThan(4);
    // Failures from before the resume do not count again: one more failure does not open the breaker.
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ steps: 3 });
  },
);

it('a run whose steps are smaller than the breaker looks back is paused by the share that fails, also over its histories', async () => {
  const config = oneByOne('share', (nth) => nth % 4 !== 1, {
    breaker: { maxConsecutiveFailures: 4, share: 0.7 },
    steps: 9,
  });
  const handle = await world.start('train', 'train/share', config);
  const status = () => handle.query<TrainStatus>('status');
  await expect
    .poll(async () => (await status()).tripped)
    .toMatchObject({ failure: 'endpoint-unavailable', failed: 12, of: 16 });
  expect((await status()).step).toBe(3);
  await handle.terminate();
  const resolved = openedConfig({ ...config, run: 'carried' });
  const failures = {
    breaker: { last: Array<string | null>(15).fill('endpoint-unavailable'), isOpen: false },
    lookedAt: 0,
  };
  const progress = {
    config: { ...resolved, breaker: { maxConsecutiveFailures: 16, share: 1 } },
    runDir: '/run',
    step: 1,
    policy: { uri: 'file:///v1', version: 1 },
    recent: [],
    pauseAt: null,
    failures,
  };
  const carried = await world.start('train', 'train/carried', resolved, progress);
  const row = async () => (await carried.query<TrainStatus>('status')).tripped;
  await expect.poll(row).toMatchObject({ failed: 16, of: 16 });
  await carried.terminate();
});

it('an asynchronous run is paused by rollouts that fail alike in one group after the other', async () => {
  let broken = true;
  world.script = {
    turn: finish,
    before: (activity, { rollout }) => {
      if (activity === 'generate' && broken && rollout?.includes('/group-')) throw down();
    },
  };
  const handle = await world.start('train', 'train/groups', {
    run: 'groups',
    policy: { base: '/p' },
    task: { name: 't', train: 20 },
    steps: 4,
    batch: { tasks: 2, samples: 2 },
    training: { mode: 'async' },
    evaluation: { tasks: 1, greedy: false },
    dispatcher: { type: 'bounded', maxParallelAgents: 4 },
    breaker: { maxConsecutiveFailures: 4 },
  });
  const status = () => handle.query<TrainStatus>('status');
  await expect
    .poll(async () => (await status()).tripped)
    .toMatchObject({ failure: 'endpoint-unavailable', failed: 4, of: 4, message: 'connection refused' });
  expect(await status()).toMatchObject({ phase: 'paused', pauseAt: 'turn', step: 0 });
  broken = false;
  await handle.signal('resume');
  expect(await handle.result()).toMatchObject({ steps: 4 });
  expect((await status()).tripped).toBeUndefined();
});

it('each of several steps of which nothing was graded pauses the run', async () => {
  world.script = { turn: finish, update: () => ({ valid: 0, masked: { 'endpoint-unavailable': 1 } }) };
  const handle = await world.start('train', 'train/every', {
    run: 'every',
    policy: { base: '/p' },
    task: { name: 't', train: 10 },
    steps: 3,
    batch: { tasks: 1, samples: 2 },
    evaluation: { tasks: 1, greedy: false },
  });
  for (const step of [1, 2, 3]) {
    await expect
      .poll(async () => (await handle.query<TrainStatus>('status')).tripped?.message ?? '')
      .toContain(`no rollout of step ${step} was graded`);
    await handle.signal('resume');
  }
  expect(await handle.result()).toMatchObject({ steps: 3 });
});

it('work that fails while its run is paused is retried once it is resumed, and costs no rollout', async () => {
  let failures = 0;
  world.script = {
    before: async (activity) => {
      if (activity !== 'generate' || failures > 0) return;
      failures += 1;
      await world.now.client.workflow.getHandle('kept').signal('pause');
      throw down();
    },
  };
  const handle = await world.start('rollout', 'kept', { task: 't-train-0', policy: { uri: 'file:///p', version: 1 } });
  await expect.poll(() => failures).toBe(1);
  await sleep(500);
  expect((await handle.describe()).status.name).toBe('RUNNING');
  await handle.signal('resume');
  expect(await handle.result()).toMatchObject({ status: 'graded', attempt: 1 });
  expect([world.count('generate'), world.count('prepare')]).toEqual([3, 1]);
});
