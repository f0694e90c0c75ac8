/**
 * The workflows on a real Temporal server, over scripted activities: what they decide when things go right and wrong.
 * Not asserted here: what the activities do (their own tests), and crashes of processes (test/e2e).
 */
import { WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure, defaultPayloadConverter } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { BatchResult } from '../../protocol/batch.ts';
import type { RolloutResult } from '../../protocol/rollout.ts';
import type { RolloutState } from '../../workflows/rollout.ts';
import { restoreFailed, sandboxLost } from '../support/scripted-activities.ts';
import { useWorkflowWorld } from '../support/use-world.ts';

const world = useWorkflowWorld();
let serial = 0;
const newId = () => `w${serial++}`;
const policy = { uri: 'file:///p', version: 3 };
const start = (workflow: string, id: string, args: unknown[]) => world.start(workflow, id, ...args);
const count = (activity: string) => world.count(activity);
const batchInput = (over: object = {}) => ({
  run: 'r',
  name: 'step-1',
  step: 1,
  tasks: ['t-train-0', 't-train-1', 't-train-2'],
  samples: 2,
  policy,
  agent: { maxTurns: 5, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
  seed: 1,
  dispatcher: { type: 'bounded', maxParallelAgents: 4 },
  ...over,
});

const msOf = ({ seconds, nanos }: { readonly seconds?: unknown; readonly nanos?: number | null } = {}) =>
  Number(seconds ?? 0) * 1000 + (nanos ?? 0) / 1e6;

/**
 * Each scheduling of an activity by a workflow: its time by the workflow's own clock, and how long an attempt may take.
 */
async function scheduled(
  id: string,
  activity: string,
): Promise<Array<{ readonly atMs: number; readonly leftMs: number }>> {
  const { events } = await world.now.client.workflow.getHandle(id).fetchHistory();
  const byId = new Map(events!.map((event) => [Number(event.eventId), event]));
  return events!.flatMap(({ activityTaskScheduledEventAttributes: asked }) => {
    if (asked?.activityType?.name !== activity) return [];
    const task = byId.get(Number(asked.workflowTaskCompletedEventId))!.workflowTaskCompletedEventAttributes!;
    const { withinMs } = defaultPayloadConverter.fromPayload<{ withinMs: number }>(asked.input!.payloads![0]!);
    return [{ atMs: msOf(byId.get(Number(task.startedEventId))!.eventTime!), leftMs: withinMs }];
  });
}

describe('rollout', () => {
  const rollout = async (id: string, over: object = {}) =>
    (await (await start('rollout', id, [{ task: 't-train-0', policy, ...over }])).result()) as RolloutResult;

  it('needs no more than a task and a policy, and releases its sandbox by collecting from it', async () => {
    const result = await rollout(newId());
    expect(result).toMatchObject({ status: 'graded', reward: 1, passed: true, turns: 2, finish: 'finish-tool' });
    expect(world.now.log.calls.map((call) => call.activity)).toEqual([
      'prepare',
      'generate',
      'agentRun',
      'generate',
      'collect',
      'computeReward',
    ]);
    expect(world.now.log.live).toBe(0);
  });

  it('refuses bad input by field, value and remedy before any work', async () => {
    const handle = await start('rollout', newId(), [{ task: 't-train-0', policy, agent: { maxTurns: 0 } }]);
    const error = await handle.result().catch((e: unknown) => e);
    expect(error).toBeInstanceOf(WorkflowFailedError);
    expect(String((error as WorkflowFailedError).cause?.message)).toMatch(/agent\.maxTurns: 0 .* at least 1/);
    expect(world.now.log.calls).toEqual([]);
  });

  it('continues in its turn, in a restored sandbox, when its sandbox is lost', async () => {
    let once = true;
    world.script = {
      before: (activity, { turn }) => {
        if (activity === 'agentRun' && turn === 1 && once) {
          once = false;
          throw sandboxLost();
        }
      },
    };
    expect(await rollout(newId())).toMatchObject({ status: 'graded', attempt: 1, restores: 1, turns: 2 });
    expect(world.now.log.calls.map((call) => call.activity)).toEqual([
      'prepare',
      'generate',
      'agentRun',
      'releaseSandbox',
      'restoreSandbox',
      'agentRun',
      'generate',
      'collect',
      'computeReward',
    ]);
    expect(world.now.log.live).toBe(0);
  });

  it('starts again if its sandbox cannot be restored', async () => {
    let once = true;
    const noise: string[] = [];
    world.script = {
      turn: ({ turn, noiseKey }) => {
        noise.push(noiseKey);
        return turn < 2 ? 'act' : 'finish';
      },
      before: (activity) => {
        if (activity === 'agentRun' && once) {
          once = false;
          throw sandboxLost();
        }
        if (activity === 'restoreSandbox') throw restoreFailed();
      },
    };
    expect(await rollout(newId())).toMatchObject({ status: 'graded', attempt: 2 });
    // The first turn is sampled with the same noise in both attempts, and each turn with its own.
    const [first, again, second] = noise;
    expect([noise.length, again === first, second === first]).toEqual([3, true, false]);
    expect(count('prepare')).toBe(2);
    expect(world.now.log.live).toBe(0);
  });

  it.each([
    ['generate', 2],
    ['agentRun', 60],
  ])('is masked at its deadline, in the middle of %s, without a sandbox', async (slow, deadlineSeconds) => {
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
    // A turn has half a minute more, to end by itself: here its worker reports at once that this has passed.
    const over = () => Promise.reject(ApplicationFailure.nonRetryable('over', 'DeadlinePassed'));
    world.script = { before: (activity) => (activity === slow ? (slow === 'agentRun' ? over() : held) : undefined) };
    const id = newId();
    const handle = await start('rollout', id, [{ task: 't-train-0', policy, agent: { deadlineSeconds } }]);
    // The running call never ends by itself: only the deadline can end the rollout.
    const result = await Promise.race([handle.result() as Promise<RolloutResult>, sleep(60_000, undefined)]);
    letGo();
    expect(result).toMatchObject({ status: 'failed', failure: 'deadline', attempt: 1 });
    expect(result?.reward).toBeUndefined();
    const [asked] = await scheduled(id, slow);
    expect(asked!.leftMs).toBeGreaterThan(0);
    expect(asked!.leftMs).toBeLessThanOrEqual(deadlineSeconds * 1000);
    expect(count('releaseSandbox')).toBe(1);
    expect(world.now.log.live).toBe(0);
  });

  it('spends none of its deadline while it is paused', async () => {
    const id = newId();
    world.script = {
      turn: ({ turn }) => (turn < 3 ? 'act' : 'finish'),
      before: async (activity, { turn }) => {
        if (activity === 'generate' && turn === 1) await world.now.client.workflow.getHandle(id).signal('pause');
      },
    };
    const handle = await start('rollout', id, [{ task: 't-train-0', policy, agent: { deadlineSeconds: 600 } }]);
    await expect
      .poll(() => handle.query<RolloutState>('state'))
      .toMatchObject({ paused: true, turn: 2, phase: 'generate' });
    const stoodMs = 2000;
    await sleep(stoodMs);
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ status: 'graded' });
    // Each of its calls may take the remaining time; one millisecond is for rounding.
    const [before, after] = await scheduled(id, 'generate');
    expect(before!.leftMs - after!.leftMs).toBeLessThanOrEqual(after!.atMs - before!.atMs - stoodMs + 1);
  });

  it('ends as failed, without a reward and without a sandbox, when sandboxes keep being lost', async () => {
    world.script = {
      before: (activity) => {
        if (activity === 'agentRun') throw sandboxLost();
      },
    };
    const result = await rollout(newId());
    expect(result).toMatchObject({ status: 'failed', failure: 'sandbox-lost', attempt: 3, restores: 3 });
    expect(count('restoreSandbox')).toBe(9);
    expect(result.reward).toBeUndefined();
    expect(world.now.log.live).toBe(0);
  });

  it('releases its sandbox when it is cancelled, and ends as cancelled', async () => {
    const id = newId();
    let began: () => void;
    const acting = new Promise<void>((resolve) => {
      began = resolve;
    });
    world.script = {
      before: async (activity) => {
        if (activity === 'agentRun') {
          began();
          await sleep(300);
        }
      },
    };
    const handle = await start('rollout', id, [{ task: 't-train-0', policy }]);
    await acting;
    await handle.cancel();
    await expect(handle.result()).rejects.toThrow();
    expect((await handle.describe()).status.name).toBe('CANCELLED');
    expect(count('releaseSandbox')).toBe(1);
    expect(world.now.log.live).toBe(0);
  });

  it('pauses at a turn and continues', async () => {
    const id = newId();
    world.script = { turn: ({ turn }) => (turn < 3 ? 'act' : 'finish') };
    const handle = await start('rollout', id, [{ task: 't-train-0', policy }]);
    await handle.signal('pause');
    await sleep(800);
    const paused = await handle.query<RolloutState>('state');
    expect(paused.paused).toBe(true);
    const calls = world.now.log.calls.length;
    await sleep(300);
    expect(world.now.log.calls.length).toBe(calls);
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ status: 'graded', turns: 3 });
  });

  it('shows its stage and end in search attributes', async () => {
    const id = newId();
    await rollout(id);
    const { typedSearchAttributes } = await world.now.client.workflow.getHandle(id).describe();
    const shown = Object.fromEntries(typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]));
    expect(shown).toMatchObject({ LonghaulStage: 'done', LonghaulReward: 1, LonghaulFinish: 'finish-tool' });
  });
});

describe('batch', () => {
  const batch = async (id: string, over: object = {}) =>
    (await (await start('batch', id, [batchInput(over)])).result()) as BatchResult;

  it('keeps the cap on live sandboxes and ends every rollout once', async () => {
    const result = await batch(newId(), { samples: 5 });
    expect(result).toMatchObject({ rollouts: 15, graded: 15, passed: 15 });
    expect(count('computeReward')).toBe(15);
    expect(world.now.log.peakLive).toBeGreaterThan(1);
    expect(world.now.log.peakLive).toBeLessThanOrEqual(4);
  });

  it('holds a width of agent-run below the live cap by gates', async () => {
    let acting = 0;
    let peak = 0;
    world.script = {
      before: async (activity) => {
        if (activity !== 'agentRun') return;
        peak = Math.max(peak, ++acting);
        await sleep(20);
        acting -= 1;
      },
    };
    const result = await batch(newId(), { samples: 3, dispatcher: { type: 'pipeline', maxParallelAgents: 2 } });
    expect(result.graded).toBe(9);
    expect(peak).toBeLessThanOrEqual(2);
  });

  it.each([
    { type: 'batch' },
    { type: 'bounded', maxParallelAgents: 1 },
    { type: 'pipeline', maxParallelAgents: 1 },
    { type: 'pipeline', maxParallelAgents: 6, maxEvalParallelAgents: 1 },
    { type: 'pipeline', maxParallelAgents: 1, maxEvalParallelAgents: 6 },
  ])('ends with %j, whichever width binds', async (dispatcher) => {
    let grading = 0;
    let peak = 0;
    world.script = {
      before: async (activity) => {
        if (activity !== 'computeReward') return;
        peak = Math.max(peak, ++grading);
        await sleep(20);
        grading -= 1;
      },
    };
    const result = await batch(newId(), { dispatcher });
    expect(result).toMatchObject({ rollouts: 6, graded: 6 });
    const width = dispatcher.maxEvalParallelAgents ?? dispatcher.maxParallelAgents ?? 6;
    expect(peak).toBeLessThanOrEqual(width);
    if (dispatcher.type === 'pipeline')
      expect(world.now.log.peakLive).toBeLessThanOrEqual(3 * (dispatcher.maxParallelAgents ?? 0));
  });

  it.each([{ type: 'batch' }, { type: 'pipeline', maxParallelAgents: 2 }])(
    'with %j, draws groups by need too',
    async (dispatcher) => {
      world.script = { reward: (rollout) => (/t-train-\d*[02468]\/1$/.test(rollout) ? 0 : 1) };
      const tasks = Array.from({ length: 20 }, (_, i) => `t-train-${i}`);
      const result = await batch(newId(), { tasks, samples: 2, wanted: 3, dispatcher });
      expect(result.groups).toBeGreaterThanOrEqual(5);
      expect(result.groups).toBeLessThan(20);
      expect(result).toMatchObject({ rollouts: 2 * result.groups, graded: 2 * result.groups });
    },
  );

  it('refuses a dispatcher setting that has no effect, by name, before any work', async () => {
    const error = await batch(newId(), { dispatcher: { type: 'batch', maxParallelAgents: 3 } }).catch(
      (e: unknown) => e,
    );
    expect(error).toBeInstanceOf(WorkflowFailedError);
    expect(String((error as WorkflowFailedError).cause?.message)).toMatch(
      /dispatcher\.maxParallelAgents: 3 .* no effect with batch/,
    );
    expect(world.now.log.calls).toEqual([]);
  });

  it('draws groups until as many vary as are wanted, each recorded before it starts', async () => {
    // Every other group varies: the second sample of tasks 0, 2, 4, … fails.
    world.script = { reward: (rollout) => (/t-train-\d*[02468]\/1$/.test(rollout) ? 0 : 1) };
    const tasks = Array.from({ length: 20 }, (_, i) => `t-train-${i}`);
    const result = await batch(newId(), { tasks, samples: 2, wanted: 3 });
    expect(result.groups).toBeGreaterThanOrEqual(5);
    expect(result.groups).toBeLessThan(12);
    expect(result).toMatchObject({ rollouts: 2 * result.groups, graded: 2 * result.groups });
    const ended = world.now.log.calls
      .filter(({ activity }) => activity === 'computeReward')
      .map(({ rollout }) => rollout.split('/').at(-2));
    expect(new Set(ended)).toEqual(new Set(tasks.slice(0, result.groups)));
    expect(count('recordDispatched')).toBeGreaterThan(1);
  });

  it('draws a batch again while too few of its groups vary, and whole', async () => {
    // Of tasks 0 to 3 none varies, of 4 to 7 two do.
    world.script = { reward: (rollout) => (/t-train-[56]\/1$/.test(rollout) ? 0 : 1) };
    const tasks = Array.from({ length: 16 }, (_, i) => `t-train-${i}`);
    const result = await batch(newId(), { tasks, samples: 2, replace: { groups: 4, minReplaceRatio: 0.3 } });
    expect(result).toMatchObject({ groups: 8, rollouts: 16, graded: 16 });
    expect(count('recordDispatched')).toBe(2);
    const order = world.now.log.calls
      .filter(({ activity }) => activity === 'computeReward')
      .map(({ rollout }) => Number(rollout.split('/').at(-2)?.split('-').at(-1)));
    expect(Math.max(...order.slice(0, 8))).toBe(3);
    expect(Math.min(...order.slice(8))).toBe(4);
  });

  it('takes every candidate if too few groups vary', async () => {
    const result = await batch(newId(), { samples: 2, wanted: 2 });
    expect(result).toMatchObject({ groups: 3, rollouts: 6 });
  });

  it('counts a failing rollout with its class; the others are untouched', async () => {
    world.script = {
      before: (activity, input) => {
        if (activity === 'agentRun' && input.rollout?.includes('t-train-1/0')) throw sandboxLost();
      },
    };
    const result = await batch(newId());
    expect(result).toMatchObject({ rollouts: 6, graded: 5, failures: { 'sandbox-lost': 1 } });
    expect(count('recordFailures')).toBe(1);
  });
});
