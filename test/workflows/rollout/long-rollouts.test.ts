/**
 * Hunts rollouts that end at Temporal's limit on histories, and signals that are lost when one continues in a new
 * history. The server is real, the activities are scripted. Not asserted: a policy that really takes hundreds of turns.
 */
import { ApplicationFailure } from '@temporalio/common';
import { expect, it } from 'vitest';
import type { BatchStatus } from '../../../protocol/batch.ts';
import type { RolloutState } from '../../../workflows/rollout.ts';
import type { BatchResult } from '../../../protocol/batch.ts';
import type { RolloutResult } from '../../../protocol/rollout.ts';
import { lasting, restoreFailed, sandboxLost } from '../../support/scripted-activities.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

/** So that a history is full after about six turns, instead of 300; past-300-turns.test.ts covers those. */
const FULL = 80;
const world = useWorkflowWorld([`--dynamic-config-value=limit.historyCount.suggestContinueAsNew=${FULL}`]);
const policy = { uri: 'file:///p', version: 1 };
const task = 't-train-0';
const agent = { maxTurns: 2000, maxContextTokens: 1_000_000, toolTimeoutSeconds: 10 };

/** The histories of one workflow, first to last. */
async function historiesOf(workflowId: string) {
  const { client } = world.now;
  const lengths: number[] = [];
  let runId: string | undefined =
    (await client.workflow.getHandle(workflowId).describe()).raw.workflowExecutionInfo?.firstRunId ?? undefined;
  while (runId) {
    const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    lengths.push(events?.length ?? 0);
    runId = events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId ?? undefined;
  }
  return lengths;
}
const turnsTo =
  (last: number) =>
  ({ turn }: { turn: number }) =>
    turn < last ? ('act' as const) : ('finish' as const);

it('many turns are one rollout in several short histories, with one sandbox', async () => {
  world.script = { turn: turnsTo(28) };
  const handle = await world.start('rollout', 'long', { task, policy, agent });
  expect(await handle.result()).toMatchObject({
    rollout: 'long',
    status: 'graded',
    turns: 28,
    attempt: 1,
    finish: 'finish-tool',
  });
  const lengths = await historiesOf('long');
  expect(lengths.length).toBeGreaterThan(3);
  expect(Math.max(...lengths)).toBeLessThan(1.5 * FULL);
  expect([
    world.count('generate'),
    world.count('agentRun'),
    world.count('prepare'),
    world.count('releaseSandbox'),
  ]).toEqual([28, 27, 1, 0]);
  const { typedSearchAttributes } = await world.now.client.workflow.getHandle('long').describe();
  const shown = Object.fromEntries(typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]));
  expect(shown).toMatchObject({ LonghaulStage: 'done', LonghaulReward: 1 });
});

it('no pause and no resume is lost, in any turn around a new history', async () => {
  const pausedAt: number[] = [];
  const begun: number[] = [];
  let asked = 0;
  world.script = {
    turn: turnsTo(16),
    before: async (activity, { turn = 0 }) => {
      if (activity === 'generate') begun.push(turn);
      if (activity !== 'agentRun') return;
      await world.now.client.workflow.getHandle('paused').signal('pause');
      asked = turn;
    },
  };
  const handle = await world.start('rollout', 'paused', { task, policy, agent });
  for (let turn = 1; turn < 16; turn += 1) {
    await expect.poll(() => asked, { interval: 10 }).toBe(turn);
    await expect.poll(async () => (await handle.query<RolloutState>('state')).turn, { interval: 20 }).toBe(turn + 1);
    const state = await handle.query<RolloutState>('state');
    expect(state).toMatchObject({ paused: true, phase: 'generate', attempt: 1, contextTokens: 10 * turn });
    pausedAt.push(begun.at(-1) ?? 0);
    await handle.signal('resume');
  }
  expect(await handle.result()).toMatchObject({ status: 'graded', turns: 16 });
  expect(pausedAt).toEqual(Array.from({ length: 15 }, (_, i) => i + 1));
  expect((await historiesOf('paused')).length).toBeGreaterThan(2);
});

it('a parent receives the result of a child that continued in a new history, through its gates', async () => {
  world.script = { turn: turnsTo(14) };
  const result = (await (
    await world.start('batch', 'train/r/step-1', {
      run: 'r',
      name: 'step-1',
      step: 1,
      tasks: ['t-train-0', 't-train-1'],
      samples: 1,
      policy,
      agent,
      sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
      seed: 1,
      dispatcher: { type: 'pipeline', maxParallelAgents: 1 },
    })
  ).result()) as BatchResult;
  expect(result).toMatchObject({ rollouts: 2, graded: 2, failures: {} });
  expect((await historiesOf('train/r/step-1/t-train-0/0')).length).toBeGreaterThan(1);
});

it('a pause and a cancellation of the parent reach children in their later histories', async () => {
  world.script = { turn: () => 'act' };
  const id = 'train/r/step-2';
  const parent = await world.start('batch', id, {
    run: 'r',
    name: 'step-2',
    step: 2,
    tasks: ['t-train-0', 't-train-1'],
    samples: 1,
    policy,
    agent,
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
    seed: 1,
    dispatcher: { type: 'bounded', maxParallelAgents: 2 },
  });
  const children = [`${id}/t-train-0/0`, `${id}/t-train-1/0`].map((child) =>
    world.now.client.workflow.getHandle(child),
  );
  const states = () => Promise.all(children.map((child) => child.query<RolloutState>('state')));
  const turns = async () => (await states()).map(({ turn }) => turn);
  await expect.poll(async () => Math.min(...(await turns()))).toBeGreaterThan(8);
  await parent.signal('pause');
  await expect.poll(async () => (await states()).every(({ paused }) => paused)).toBe(true);
  await parent.signal('resume');
  await expect.poll(async () => Math.min(...(await turns()))).toBeGreaterThan(14);
  await parent.cancel();
  await expect(parent.result()).rejects.toThrow();
  // It did not end because its wait for them had timed out.
  const { events } = await parent.fetchHistory();
  expect(events?.filter(({ timerFiredEventAttributes }) => timerFiredEventAttributes)).toEqual([]);
  await expect.poll(() => world.now.log.live).toBe(0);
  for (const child of children) await expect.poll(async () => (await child.describe()).status.name).toBe('CANCELLED');
});

it('a rollout that is held again in a later history than it was resumed in pauses its batch again', async () => {
  const mended = new Set<number>();
  world.script = {
    turn: turnsTo(20),
    before: (activity, { turn = 0 }) => {
      if (activity === 'generate' && (turn === 2 || turn === 18) && !mended.has(turn))
        throw ApplicationFailure.nonRetryable('50 workers ended in it', 'WorkersLost');
    },
  };
  const parent = await world.start('batch', 'train/r/step-3', {
    run: 'r',
    name: 'step-3',
    step: 3,
    tasks: ['t-train-0'],
    samples: 1,
    policy,
    agent,
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
    seed: 1,
    dispatcher: { type: 'batch' },
  });
  for (const turn of [2, 18]) {
    await expect
      .poll(async () => (await parent.query<BatchStatus>('status')).tripped?.work)
      .toContain(`the sampling of turn ${turn} of`);
    mended.add(turn);
    await parent.signal('resume');
  }
  expect(await parent.result()).toMatchObject({ graded: 1, failures: {} });
  expect((await historiesOf('train/r/step-3/t-train-0/0')).length).toBeGreaterThan(2);
});

it('a cancelled rollout releases its sandbox in any of its histories', async () => {
  world.script = {
    turn: turnsTo(20),
    before: async (activity, { turn }) => {
      if (activity === 'agentRun' && turn === 9) await world.now.client.workflow.getHandle('cancelled').cancel();
    },
  };
  const handle = await world.start('rollout', 'cancelled', { task, policy, agent });
  await expect(handle.result()).rejects.toThrow();
  expect((await handle.describe()).status.name).toBe('CANCELLED');
  expect(world.count('releaseSandbox')).toBe(1);
  expect(world.now.log.live).toBe(0);
});

it.each([
  ['is restored, and the turns count on', true, { attempt: 1, restores: 1, turns: 20 }],
  ['begins the attempt again where it cannot be restored, and the turns count anew', false, { attempt: 2, turns: 3 }],
])('a sandbox lost in the second history %s', async (_, restorable, end) => {
  let once = true;
  world.script = {
    turn: ({ turn, attempt }) => (turn < (attempt === 1 ? 20 : 3) ? 'act' : 'finish'),
    before: (activity, { turn }) => {
      if (activity === 'agentRun' && turn === 9 && once) {
        once = false;
        throw sandboxLost();
      }
      if (activity === 'restoreSandbox' && !restorable) throw restoreFailed();
    },
  };
  const result = (await (
    await world.start('rollout', `lost-${restorable}`, { task, policy, agent })
  ).result()) as RolloutResult;
  expect(result).toMatchObject({ status: 'graded', ...end });
  expect(world.now.log.live).toBe(0);
});

it('a wait for days at a gate is one rollout in several short histories, with one sandbox', async () => {
  const done = Promise.withResolvers<void>();
  let inside = '';
  world.script = {
    turn: () => 'finish',
    ttlSeconds: () => 3,
    before: async (activity, { rollout = '' }) => {
      if (activity === 'generate' && (inside ||= rollout) === rollout) await lasting(done.promise);
    },
  };
  const handle = await world.start('batch', 'gated', {
    run: 'gated',
    name: 'gated',
    step: 1,
    tasks: [task],
    samples: 2,
    policy,
    agent,
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
    seed: 1,
    dispatcher: { type: 'pipeline', maxParallelAgents: 1 },
  });
  await expect.poll(() => inside).not.toBe('');
  const waiting = `gated/${task}/${inside.endsWith('/0') ? 1 : 0}`;
  await expect.poll(async () => (await historiesOf(waiting)).length, { interval: 1000 }).toBeGreaterThan(2);
  expect(world.count('generate')).toBe(1);
  const { typedSearchAttributes } = await world.now.client.workflow.getHandle(waiting).describe();
  expect(typedSearchAttributes.getAll().find(({ key }) => key.name === 'LonghaulStage')?.value).toBe('init');
  done.resolve();
  expect((await handle.result()) as BatchResult).toMatchObject({ rollouts: 2, graded: 2 });
  expect(Math.max(...(await historiesOf(waiting)))).toBeLessThan(1.5 * FULL);
  expect([world.count('prepare'), world.count('generate'), world.count('computeReward')]).toEqual([2, 2, 2]);
});
