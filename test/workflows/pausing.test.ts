/**
 * Hunts pauses that do not reach all work, that are lost, or that cost a sandbox. The server is real, activities are
 * scripted. Not asserted: that a real sandbox outlives its time to live while paused
 * (test/activities/agent-run/agent-run.test.ts renews it).
 */
import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { describe, expect, it } from 'vitest';
import type { BatchStatus } from '../../protocol/batch.ts';
import type { RolloutState } from '../../workflows/rollout.ts';
import type { BatchResult } from '../../protocol/batch.ts';
import type { TrainStatus } from '../../protocol/train-status.ts';
import { sandboxLost } from '../support/scripted-activities.ts';
import { standstill } from '../support/standstill.ts';
import { useWorkflowWorld } from '../support/use-world.ts';

const world = useWorkflowWorld();
const policy = { uri: 'file:///p', version: 3 };
let serial = 0;
const newId = () => `p${serial++}`;

const batchInput = (run: string, samples: number, dispatcher: object) => ({
  run,
  name: 'step-1',
  step: 1,
  tasks: ['t-train-0', 't-train-1'],
  samples,
  policy,
  agent: { maxTurns: 5, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
  seed: 1,
  dispatcher,
});
const config = (run: string, over: object = {}) => ({
  run,
  policy: { base: '/p' },
  task: { name: 't', train: 10 },
  steps: 2,
  batch: { tasks: 2, samples: 2 },
  evaluation: { tasks: 1, greedy: false },
  dispatcher: { type: 'bounded', maxParallelAgents: 4 },
  ...over,
});

describe('a rollout', () => {
  it('ends its turn, keeps its sandbox alive while it is paused, and continues where it was', async () => {
    const id = newId();
    world.script = {
      ttlSeconds: () => 3,
      turn: ({ turn }) => (turn < 3 ? 'act' : 'finish'),
      before: async (activity, { turn }) => {
        if (activity === 'generate' && turn === 2) await world.now.client.workflow.getHandle(id).signal('pause');
      },
    };
    const handle = await world.start('rollout', id, { task: 't-train-0', policy });
    await expect.poll(() => world.count('holdSandbox')).toBeGreaterThan(2);
    expect([world.count('generate'), world.count('agentRun'), world.count('prepare')]).toEqual([2, 2, 1]);
    expect(await handle.query<RolloutState>('state')).toMatchObject({ paused: true, turn: 3, phase: 'generate' });
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ status: 'graded', attempt: 1, turns: 3 });
  });

  it('whose sandbox is lost while it is paused is restored once it is resumed, and shows it', async () => {
    const id = newId();
    let lost = false;
    world.script = {
      ttlSeconds: () => 3,
      before: async (activity) => {
        if (activity === 'generate' && !lost) await world.now.client.workflow.getHandle(id).signal('pause');
        if (activity === 'holdSandbox' && !lost) {
          lost = true;
          throw sandboxLost();
        }
      },
    };
    const handle = await world.start('rollout', id, { task: 't-train-0', policy });
    await expect.poll(async () => (await handle.query<RolloutState>('state')).restores).toBe(1);
    await standstill(world);
    expect([world.count('prepare'), world.count('restoreSandbox')]).toEqual([1, 0]);
    expect(world.now.log.live).toBe(0);
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ status: 'graded', attempt: 1, restores: 1 });
  });

  it('does not fail if a renewal fails for another reason', async () => {
    const id = newId();
    world.script = {
      ttlSeconds: () => 3,
      before: async (activity, { turn }) => {
        if (activity === 'generate' && turn === 1) await world.now.client.workflow.getHandle(id).signal('pause');
        if (activity === 'holdSandbox') throw ApplicationFailure.nonRetryable('the store does not answer', 'StoreDown');
      },
    };
    const handle = await world.start('rollout', id, { task: 't-train-0', policy });
    await expect.poll(() => world.count('holdSandbox')).toBeGreaterThan(1);
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ status: 'graded', attempt: 1 });
  });

  it('in its last turn is still graded', async () => {
    const id = newId();
    world.script = {
      before: async (activity, { turn }) => {
        if (activity === 'generate' && turn === 2) await world.now.client.workflow.getHandle(id).signal('pause');
      },
    };
    expect(await (await world.start('rollout', id, { task: 't-train-0', policy })).result()).toMatchObject({
      status: 'graded',
    });
  });
});

describe('a batch', () => {
  it.each([
    [{ type: 'bounded', maxParallelAgents: 40 }],
    [{ type: 'pipeline', maxParallelAgents: 5, maxEvalParallelAgents: 3 }],
  ] as const)('of 40 with %j stops every rollout at a turn and begins none, then ends all once', async (dispatcher) => {
    const id = newId();
    const handle = await world.start('batch', id, batchInput('r', 20, dispatcher));
    await expect.poll(() => world.count('generate'), { interval: 10 }).toBeGreaterThan(5);
    await handle.signal('pause');
    await handle.signal('pause');
    await standstill(world);
    const { ended, paused, total } = await handle.query<BatchStatus>('status');
    expect([paused, total]).toEqual([true, 40]);
    expect(ended).toBeLessThan(40);
    await handle.signal('resume');
    await handle.signal('resume');
    expect((await handle.result()) as BatchResult).toMatchObject({ rollouts: 40, graded: 40 });
    expect(world.count('computeReward')).toBe(40);
    expect(world.now.log.live).toBe(0);
  });
});

it('a rollout that waits at a gate while its batch is paused keeps its sandbox', async () => {
  const id = newId();
  let letGo: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  world.script = {
    ttlSeconds: () => 3,
    before: async (activity) => {
      if (activity === 'agentRun') await held;
    },
  };
  const handle = await world.start('batch', id, batchInput('r', 3, { type: 'pipeline', maxParallelAgents: 2 }));
  await expect.poll(() => [world.count('agentRun'), world.count('prepare')], { interval: 10 }).toEqual([2, 6]);
  await handle.signal('pause');
  const ids = ['t-train-0', 't-train-1'].flatMap((task) => [0, 1, 2].map((sample) => `${id}/${task}/${sample}`));
  const isPaused = async (rollout: string) =>
    (await world.now.client.workflow.getHandle(rollout).query<RolloutState>('state')).paused;
  await expect.poll(async () => (await Promise.all(ids.map(isPaused))).every(Boolean)).toBe(true);
  letGo();
  await expect
    .poll(() => new Set(world.now.log.calls.filter((c) => c.activity === 'holdSandbox').map((c) => c.rollout)).size)
    .toBe(6);
  expect(world.count('generate')).toBe(2);
  await handle.signal('resume');
  expect(await handle.result()).toMatchObject({ rollouts: 6, graded: 6 });
  expect(world.count('prepare')).toBe(6);
});

describe('a run', () => {
  const status = (handle: WorkflowHandle) => handle.query<TrainStatus>('status');

  it('paused before it has started opens, starts nothing, and continues when it is resumed', async () => {
    const run = newId();
    const handle = await world.start('train', `train/${run}`, config(run));
    await handle.signal('pause');
    await standstill(world);
    expect(await status(handle)).toMatchObject({ phase: 'paused', pauseAt: 'turn', step: 0 });
    const begun = world.count('prepare');
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ steps: 2 });
    expect(world.count('prepare')).toBeGreaterThan(begun);
  });

  it('resumed before it was paused, and paused twice, is paused; one resume undoes it', async () => {
    const run = newId();
    const handle = await world.start('train', `train/${run}`, config(run));
    for (const word of ['resume', 'pause', 'pause']) await handle.signal(word);
    await standstill(world);
    expect(await status(handle)).toMatchObject({ phase: 'paused' });
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ steps: 2 });
  });

  it('paused at a turn stops the rollouts of its batch; at a step it lets them end', async () => {
    const run = newId();
    let said = '';
    world.script = {
      turn: ({ turn }) => (turn < 5 ? 'act' : 'finish'),
      before: async (activity, { rollout }) => {
        if (activity !== 'generate' || said !== '' || !rollout?.includes('/step-1/')) return;
        said = 'turn';
        await world.now.client.workflow.getHandle(`train/${run}`).signal('pause');
      },
    };
    const handle = await world.start('train', `train/${run}`, config(run));
    await expect.poll(() => said).toBe('turn');
    await standstill(world);
    expect(world.count('update')).toBe(0);
    const { ended } = await world.now.client.workflow.getHandle(`train/${run}/step-1`).query<BatchStatus>('status');
    expect(ended).toBeLessThan(4);
    await handle.signal('pause', 'step');
    await expect.poll(() => world.count('recordStep')).toBe(1);
    await standstill(world);
    expect(await status(handle)).toMatchObject({ phase: 'paused', pauseAt: 'step', step: 1 });
    expect(world.count('recordStep')).toBe(1);
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ steps: 2 });
  });

  it('is cancelled while it is paused, without a sandbox left', async () => {
    const run = newId();
    const handle = await world.start('train', `train/${run}`, config(run));
    await expect.poll(() => world.count('generate')).toBeGreaterThan(0);
    await handle.signal('pause');
    await standstill(world);
    await handle.cancel();
    await expect(handle.result()).rejects.toThrow();
    await expect.poll(() => world.now.log.live).toBe(0);
  });
});

describe('a run whose steps are changed', () => {
  const prolongedAt = async (activity: string, nth: number, steps: number) => {
    const run = newId();
    let asked: Promise<unknown> | undefined;
    world.script = {
      before: async (name) => {
        if (name !== activity || world.count(activity) < nth || asked) return;
        asked = world.now.client.workflow.getHandle(`train/${run}`).executeUpdate('configure', { args: [{ steps }] });
        await asked;
      },
    };
    const handle = await world.start('train', `train/${run}`, config(run));
    return (await handle.result()) as { readonly steps: number };
  };

  it('during its last evaluation continues', async () => {
    expect(await prolongedAt('summariseEvaluation', 2, 3)).toMatchObject({ steps: 3 });
    expect(world.count('update')).toBe(3);
  });
});
