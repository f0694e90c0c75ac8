/**
 * Hunts rollouts that are masked although nothing in their run can continue, which would change the weights: a rollout
 * with a failure that the table holds waits with its sandbox, its run, eval or batch pauses with the reason, and the
 * work is repeated when that is resumed. The server is real; activities are scripted, except the last test's sampling.
 */
import type { Connection } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Longhaul } from '../../../client/longhaul.ts';
import { liveLines } from '../../../cli/train/format.ts';
import type { BatchStatus } from '../../../protocol/batch.ts';
import { FAILURES } from '../../../protocol/failure-policy.ts';
import { inCode } from '../../../workflows/details.ts';
import type { SweepStatus } from '../../../protocol/eval.ts';
import type { RolloutResult } from '../../../protocol/rollout.ts';
import type { TrainStatus } from '../../../protocol/train-status.ts';
import type { UpdateInput } from '../../../protocol/update.ts';
import type { RolloutState } from '../../../workflows/rollout.ts';
import { sandboxLost } from '../../support/scripted-activities.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const world = useWorkflowWorld();
const policy = { uri: 'file:///p', version: 1 };
const none = { started: 0, ended: 0, total: 0, passed: 0, failed: 0 };
const lost = () => ApplicationFailure.nonRetryable('50 workers ended in it', 'WorkersLost');
const full = () =>
  ApplicationFailure.create({ type: 'StoreFull', message: 'No space is left', nextRetryDelay: '20ms' });
const damaged = () => ApplicationFailure.nonRetryable('the record verdict:x is not what was written', 'StoreCorrupt');
const torn = () => ApplicationFailure.create({ type: 'CheckpointTorn', message: 'v1 is torn', nextRetryDelay: '20ms' });
const calls = (activity: string, of = '') =>
  world.now.log.calls.filter((call) => call.activity === activity && call.rollout.includes(of)).length;

it.each([
  ['prepare', 'the sandbox'],
  ['restoreSandbox', 'the replacement of a lost sandbox'],
  ['generate', 'the sampling of turn 1'],
  ['agentRun', 'the tool calls of turn 1'],
  ['collect', 'the collection'],
  ['computeReward', 'the grading'],
])(
  'a single rollout whose %s is quarantined is held, keeps its sandbox, shows why, and continues when it is resumed',
  async (activity, work) => {
    let broken = true;
    let losesOne = activity === 'restoreSandbox';
    world.script = {
      ttlSeconds: () => 3,
      before: (name) => {
        if (name === 'agentRun' && losesOne) {
          losesOne = false;
          throw sandboxLost();
        }
        if (name === activity && broken) throw lost();
      },
    };
    const id = `rollout/held/${activity}`;
    const handle = await world.start('rollout', id, { task: 't-train-0', policy });
    const state = () => handle.query<RolloutState>('state');
    await expect
      .poll(async () => (await state()).held)
      .toMatchObject({ failure: 'quarantined', work: `${work} of ${id}`, message: '50 workers ended in it' });
    const line = `paused: ${work} of ${id} is quarantined (50 workers ended in it); ${FAILURES.quarantined.remedy}; then \`npx longhaul resume ${id}\` retries it`;
    expect((await world.details(id)).split('\n').at(-1)).toBe(inCode(line));
    if (['generate', 'agentRun', 'collect'].includes(activity)) {
      await expect.poll(() => calls('holdSandbox', id)).toBeGreaterThanOrEqual(2);
      expect([world.now.log.live, calls('releaseSandbox', id)]).toEqual([1, 0]);
    }
    expect(calls(activity, id)).toBe(1);
    broken = false;
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ status: 'graded', attempt: 1 });
    expect([calls(activity, id) > 1, world.now.log.live]).toEqual([true, 0]);
  },
);

const configOf = (run: string, mode: 'sync' | 'one-step-off' | 'async', over: object = {}) => ({
  run,
  policy: { base: '/p' },
  task: { name: 't', train: 20 },
  steps: 2,
  batch: { tasks: 2, samples: 2 },
  training: { mode },
  evaluation: { tasks: 1, greedy: false },
  dispatcher: { type: 'bounded', maxParallelAgents: 8 },
  ...over,
});

it.each([
  ['sync', 'computeReward', 'step-1/', lost],
  ['sync', 'generate', 'eval-0-sampled/', lost],
  ['sync', 'generate', 'step-2/', torn],
  ['one-step-off', 'agentRun', 'step-1/', full],
  ['sync', 'agentRun', 'step-2/', damaged],
  ['async', 'computeReward', 'group-2/', lost],
] as const)(
  'a run (%s) whose %s in %s cannot continue pauses, shows this, masks nothing, and trains on every rollout when it is resumed',
  async (mode, activity, where, error) => {
    let broken = true;
    const trained: UpdateInput[] = [];
    const run = `held-${mode}-${activity}-${where.replace('/', '')}`;
    const ends = new Map<string, number>();
    world.script = {
      ...(activity !== 'agentRun' && { turn: () => 'finish' }),
      before: (name, { rollout = '' }) => {
        if (name === 'computeReward') ends.set(rollout, (ends.get(rollout) ?? 0) + 1);
        const isOne = error === torn || rollout.endsWith('/0');
        if (name === activity && broken && isOne && rollout.includes(`/${where}`)) throw error();
      },
      update: (input) => void trained.push(input),
    };
    const handle = await world.start('train', `train/${run}`, configOf(run, mode));
    const status = () => handle.query<TrainStatus>('status');
    const failure =
      error === torn
        ? 'checkpoint-torn'
        : error === full
          ? 'store-unavailable'
          : error === damaged
            ? 'store-damaged'
            : 'quarantined';
    await expect
      .poll(async () => (await status()).tripped)
      .toMatchObject({ failure, work: expect.stringContaining(`train/${run}/${where}`) as string });
    const paused = await status();
    expect(paused).toMatchObject({ phase: 'paused', pauseAt: 'turn' });
    const line = liveLines(paused, none)[0] ?? '';
    expect(line).toContain(FAILURES[failure].remedy);
    expect(line).toContain(`\`npx longhaul resume ${run}\` retries it`);
    expect(await world.details(`train/${run}`)).toBe(inCode(line));
    broken = false;
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ steps: 2 });
    expect(trained.map(({ step }) => step)).toEqual([1, 2]);
    const failed = world.now.log.calls
      .filter((call) => call.activity === 'recordFailures')
      .map(({ rollout }) => rollout);
    expect(failed).toEqual([]);
  },
);

it('a run that pauses for nothing masks what it would hold', async () => {
  const heard: string[] = [];
  world.script = {
    before: (name, { rollout = '' }) => {
      if (name === 'recordFailures') heard.push(rollout);
      if (name === 'computeReward' && rollout.endsWith('/step-1/t-train-0/0')) throw lost();
      if (name === 'computeReward' && rollout.includes('/step-1/') && rollout.endsWith('/1')) throw lost();
    },
  };
  const handle = await world.start(
    'train',
    'train/unheld',
    configOf('unheld', 'sync', { breaker: { maxConsecutiveFailures: 0 } }),
  );
  expect(await handle.result()).toMatchObject({ steps: 2 });
  expect(heard.join(' ')).toContain('train/unheld/step-1/');
});

it('a rollout that is started by the library with holds: false is masked instead', async () => {
  world.script = {
    before: (name) => {
      if (name === 'generate') throw lost();
    },
  };
  const { address } = (world.now.client.connection as Connection).options;
  const longhaul = await Longhaul.connect({ address });
  const handle = await longhaul.startRollout({ task: 't-train-0', policy, holds: false }, 'rollout/unheld');
  expect(await handle.result()).toMatchObject({ status: 'failed', failure: 'quarantined' });
  await longhaul.close();
});

it('an eval whose checkpoint is torn pauses and says so, and masks nothing', async () => {
  let broken = true;
  world.script = {
    before: (name) => {
      if (name === 'generate' && broken) throw torn();
    },
  };
  const agent = { maxTurns: 5, maxContextTokens: 1000, toolTimeoutSeconds: 10 };
  const handle = await world.start('evalSweep', 'eval/held', {
    agent,
    dispatcher: { type: 'bounded', maxParallelAgents: 4 },
  });
  const status = () => handle.query<SweepStatus>('status');
  await expect
    .poll(async () => (await status()).tripped)
    .toMatchObject({ failure: 'checkpoint-torn', message: 'v1 is torn' });
  expect(await status()).toMatchObject({ phase: 'paused' });
  expect(await world.details('eval/held')).toMatch(
    /^`` paused: the sampling of turn 1 of eval\/held\/\S+ failed as checkpoint-torn on all its tries/,
  );
  broken = false;
  await handle.signal('resume');
  expect(await handle.result()).toMatchObject({ graded: 16 });
  expect((await status()).tripped).toBeUndefined();
  expect(calls('recordFailures')).toBe(0);
});

it('a single batch stops the others at a turn, shows why, and continues when it is resumed', async () => {
  let broken = true;
  const others = Promise.withResolvers<void>();
  world.script = {
    turn: ({ turn }) => (turn < 4 ? 'act' : 'finish'),
    before: async (name, { rollout = '', turn = 0 }) => {
      if (name === 'agentRun' && turn === 2 && rollout.endsWith('/1'))
        await Promise.race([others.promise, sleep(5000)]);
      if (name === 'generate' && rollout.endsWith('/0') && broken) throw lost();
    },
  };
  const handle = await world.start('batch', 'alone/b', {
    run: 'alone',
    name: 'b',
    step: 1,
    tasks: ['t-train-1'],
    samples: 2,
    policy,
    seed: 1,
    dispatcher: { type: 'batch' },
    agent: { maxTurns: 5, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
  });
  const status = () => handle.query<BatchStatus>('status');
  await expect.poll(async () => (await status()).tripped?.failure).toBe('quarantined');
  const other = world.now.client.workflow.getHandle('alone/b/t-train-1/1');
  await expect.poll(async () => (await other.query<RolloutState>('state')).paused).toBe(true);
  others.resolve();
  expect(await world.details('alone/b')).toMatch(
    /the sampling of turn 1 of alone\/b\/t-train-1\/0 is quarantined[^\n]*\n\n0 of 2 rollouts ended/,
  );
  broken = false;
  await handle.signal('resume');
  expect(await handle.result()).toMatchObject({ graded: 2, failures: {} });
});

it('a rollout that fails in this way while its run is paused is resumed with it', async () => {
  let broken = true;
  world.script = {
    before: (name) => {
      if (name === 'computeReward' && broken) throw lost();
    },
  };
  const handle = await world.start('rollout', 'rollout/paused-and-held', { task: 't-train-0', policy });
  await handle.signal('pause');
  await handle.signal('resume');
  await expect.poll(async () => (await handle.query<RolloutState>('state')).held?.failure).toBe('quarantined');
  await handle.signal('pause');
  broken = false;
  await handle.signal('resume');
  expect((await handle.result()) as RolloutResult).toMatchObject({ status: 'graded' });
});
