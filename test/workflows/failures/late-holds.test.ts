/**
 * Hunts a signal of a held rollout that arrives too late, or too early: a run that pauses for a rollout that continues,
 * and a run that continues without a paused batch. The server is real, activities are scripted; the test sends the late
 * signal itself.
 */
import { openedConfig } from '../../support/some-tasks.ts';
import { ApplicationFailure } from '@temporalio/common';
import { NativeConnection, Worker } from '@temporalio/worker';
import type { Connection } from '@temporalio/client';
import { afterEach, expect, it } from 'vitest';
import { buildWorkflowBundle } from '../../../workers/workflow-bundle.ts';
import type { Trip } from '../../../protocol/breaker.ts';
import type { TrainStatus } from '../../../protocol/train-status.ts';
import type { RolloutState } from '../../../workflows/rollout.ts';
import type { TrainProgress } from '../../../workflows/training/progress.ts';
import { lasting } from '../../support/scripted-activities.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const world = useWorkflowWorld();
const agent = { maxTurns: 5, maxContextTokens: 1000, toolTimeoutSeconds: 10 };
const sampling = { temperature: 1, topP: 1, topK: 0, maxTokens: 10 };
const policy = { uri: 'file:///p', version: 1 };
const trip: Trip = { failure: 'quarantined', message: 'm', failed: 1, of: 1, work: 'the sampling of turn 1 of it' };
const lost = () => ApplicationFailure.nonRetryable('50 workers ended in it', 'WorkersLost');
const configOf = (run: string, mode: 'sync' | 'async') => ({
  run,
  policy: { base: '/p' },
  task: { name: 't', train: 20 },
  steps: 1,
  batch: { tasks: 1, samples: 2 },
  training: { mode },
  evaluation: { tasks: 1, greedy: false },
  dispatcher: { type: 'bounded', maxParallelAgents: 2 },
});
const batch = { step: 1, tasks: ['t-train-1'], samples: 2, policy, seed: 1, dispatcher: { type: 'batch' } };

let letGo = () => {};
afterEach(() => letGo());

it.each([
  ['batch', 'late/b', [{ ...batch, run: 'late', name: 'b', agent, sampling }], 'late/b', 'late/b/t-train-1/0', []],
  ['train', 'train/late', [configOf('late', 'sync')], 'train/late/step-1', 'train/late/step-1/', ['step-1']],
  [
    'evalSweep',
    'eval/late',
    [{ agent, dispatcher: { type: 'batch' } }],
    'eval/late/a/t1/r1-c0',
    'eval/late/',
    ['a/t1/r1-c0'],
  ],
] as const)(
  'a %s ignores that a rollout was held which it has resumed since, and pauses for one that it has not',
  async (workflow, id, args, batchId, rollouts, held) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    letGo = resolve;
    let isHeld = false;
    world.script = {
      before: async (activity, { rollout = '' }) => {
        if (activity !== 'generate' || !rollout.startsWith(rollouts)) return;
        if (isHeld) return;
        await lasting(promise);
      },
    };
    const handle = await world.start(workflow, id, ...args);
    const word = (resumed: number) =>
      held.length === 0
        ? handle.signal('rolloutHeld', rollouts, trip, resumed)
        : handle.signal('circuitOpened', trip, { name: held[0], resumed });
    const child = world.now.client.workflow.getHandle(held.length === 0 ? rollouts : batchId);
    const isPaused = async () => {
      const status = await handle.query<{ paused?: boolean; phase?: string }>('status');
      return status.paused ?? status.phase === 'paused';
    };
    const isChildPaused = async () =>
      (await child.query<{ paused: boolean }>(held.length === 0 ? 'state' : 'status').catch(() => undefined))?.paused;
    await expect.poll(isChildPaused).toBe(false);
    await handle.signal('pause');
    await expect.poll(isChildPaused).toBe(true);
    await handle.signal('resume');
    await expect.poll(isChildPaused).toBe(false);
    await word(0);
    expect(await isPaused()).toBe(false);
    await word(1);
    expect(await isPaused()).toBe(true);
    isHeld = true;
    await handle.signal('resume');
    letGo();
    await handle.result();
  },
);

it('a rollout that is held again after it was resumed pauses its run again, each time', async () => {
  let broken = true;
  world.script = {
    before: (activity, { rollout = '' }) => {
      if (activity === 'generate' && rollout.endsWith('/0') && rollout.includes('/group-1/') && broken) throw lost();
    },
  };
  const handle = await world.start('train', 'train/again', configOf('again', 'async'));
  const status = () => handle.query<TrainStatus>('status');
  const tries = () =>
    world.now.log.calls.filter(({ activity, rollout }) => activity === 'generate' && rollout.endsWith('/0')).length;
  for (let times = 1; times <= 3; times += 1) {
    await expect.poll(async () => (await status()).tripped?.failure).toBe('quarantined');
    expect(await status()).toMatchObject({ phase: 'paused' });
    expect(tries()).toBeGreaterThanOrEqual(times);
    broken = times < 3;
    await handle.signal('resume');
  }
  expect(await handle.result()).toMatchObject({ steps: 1 });
});

it.each([true, false])(
  'what a rollout began before it was resumed, and failed after, is repeated (holds: %s)',
  async (holds) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    letGo = resolve;
    let tries = 0;
    world.script = {
      before: async (activity) => {
        if (activity !== 'generate') return;
        tries += 1;
        if (tries > 1) return;
        await lasting(promise);
        throw lost();
      },
    };
    const handle = await world.start('rollout', `rollout/began-before-${holds}`, { task: 't-train-0', policy, holds });
    await expect.poll(() => tries).toBe(1);
    await handle.signal('pause');
    await handle.signal('resume');
    expect(await handle.query<RolloutState>('state')).toMatchObject({ paused: false });
    letGo();
    // A rollout that is held here never ends.
    expect(await handle.result()).toMatchObject({ status: 'graded', attempt: 1 });
    expect(tries).toBeGreaterThan(1);
  },
);

it('a batch that was held, and whose run was resumed, before its new history had started is resumed by that', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  letGo = resolve;
  world.script = { before: (activity) => (activity === 'generate' ? lasting(promise) : undefined) };
  // For every kind of workflow that receives it.
  const told = await world.start('rollout', 'train/new/group-1', { task: 't-train-0', policy });
  const config = { ...configOf('new', 'async'), steps: 2 };
  const running = [{ number: 1, policy: { uri: 'file:///v0', version: 0 }, lastStep: 1 }];
  const progress: TrainProgress = {
    config: openedConfig(config),
    runDir: '/run',
    step: 1,
    policy,
    recent: [],
    pauseAt: null,
    overlap: { begun: 1, running, ended: [] },
  };
  // No worker serves this queue yet: all signals arrive before its first workflow task.
  const handle = await world.now.client.workflow.start('train', {
    taskQueue: 'later',
    workflowId: 'train/new',
    args: [config, progress],
  });
  await handle.signal('circuitOpened', trip, { name: 'group-1', resumed: 0 });
  await handle.signal('resume');
  const { address } = (world.now.client.connection as Connection).options;
  const connection = await NativeConnection.connect({ address });
  const codePath = await buildWorkflowBundle();
  const worker = await Worker.create({ connection, taskQueue: 'later', workflowBundle: { codePath } });
  const words = async () => {
    const { events } = await told.fetchHistory();
    return events?.flatMap((event) => event.workflowExecutionSignaledEventAttributes?.signalName ?? []);
  };
  await worker.runUntil(async () => {
    expect(await handle.query<TrainStatus>('status')).toMatchObject({ step: 1 });
    await expect.poll(words).toEqual(['resume']);
    await handle.terminate();
  });
  await connection.close();
  expect((await told.query<RolloutState>('state')).held).toBeUndefined();
  await told.terminate();
});
