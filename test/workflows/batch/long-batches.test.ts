/**
 * Hunts a large batch that outgrows one history, and what could be lost when it continues in a new one: an end, a place
 * at a gate, a pause, a cancellation. The server is real and suggests a new history every few rollouts; activities are
 * scripted.
 */
import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { BatchStatus } from '../../../protocol/batch.ts';
import type { BatchProgress } from '../../../workflows/batch/progress.ts';
import { hasRoom, isFull, isLong } from '../../../workflows/batch/long-batch.ts';
import type { BatchResult, DispatcherSettings } from '../../../protocol/batch.ts';
import { lasting, sandboxLost } from '../../support/scripted-activities.ts';
import { standstill } from '../../support/standstill.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const SUGGESTED = 100;
const world = useWorkflowWorld([`--dynamic-config-value=limit.historyCount.suggestContinueAsNew=${SUGGESTED}`]);
let ids = 0;
const newId = () => `train/long/batch-${ids++}`;
const batchInput = (tasks: number, samples: number, dispatcher: DispatcherSettings, over: object = {}) => ({
  run: 'long',
  name: 'b',
  step: 1,
  tasks: Array.from({ length: tasks }, (_, i) => `t-train-${i}`),
  samples,
  policy: { uri: 'file:///p', version: 1 },
  agent: { maxTurns: 9, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
  seed: 1,
  dispatcher,
  ...over,
});
/** The progress of a batch that has not started anything: with it even a small batch is long. */
const nothingYet: BatchProgress = {
  begunAt: Date.now(),
  started: 0,
  paused: false,
  resumed: 0,
  stoodMs: 0,
  watch: { breaker: { last: [], isOpen: false }, ends: [] },
  sampling: { begun: 0, ended: 0, varied: 0 },
  places: { waiting: [], init: [], ready: [], 'agent-run': [], collected: [], reward: [] },
  ledger: { ended: 0, graded: 0, passed: 0, rewardSum: 0, failures: {}, groups: [] },
  admitted: [],
  givenUp: [],
};
const start = (input: object) => world.start('batch', newId(), input, nothingYet);
const sandboxImpossible = () => ApplicationFailure.nonRetryable('no such image', 'SandboxImpossible');
const pipeline = { type: 'pipeline', maxParallelAgents: 2, maxEvalParallelAgents: 1 } as const;

/** Lengths of the histories that a workflow went through, oldest first. */
async function histories({ workflowId }: WorkflowHandle): Promise<number[]> {
  const { client } = world.now;
  const lengths: number[] = [];
  for await (const run of client.workflow.list({ query: `WorkflowId = '${workflowId}'` }))
    lengths.unshift(Number(run.historyLength));
  return lengths;
}

/** The progress that each history passed on, last one first. */
async function carriedOver({ workflowId }: WorkflowHandle): Promise<BatchProgress[]> {
  const { client } = world.now;
  const carried: BatchProgress[] = [];
  for await (const { runId } of client.workflow.list({ query: `WorkflowId = '${workflowId}'` })) {
    const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    const { payloads } = events![0]!.workflowExecutionStartedEventAttributes!.input!;
    carried.push(JSON.parse(Buffer.from(payloads![1]!.data!).toString()) as BatchProgress);
  }
  return carried;
}

/** Waits until nothing was called for a second: then held calls wait, and all others have ended. */
async function untilHeld(): Promise<void> {
  for (let seen = -1; seen !== world.now.log.calls.length; await sleep(1000)) seen = world.now.log.calls.length;
}

afterEach(() => expect(world.now.log.live).toBe(0));

describe('a long batch', () => {
  it('continues in new histories, keeps its widths, and ends every rollout once', async () => {
    const inside: Record<string, number> = { agentRun: 0, computeReward: 0 };
    const peak: Record<string, number> = { agentRun: 0, computeReward: 0 };
    world.script = {
      before: async (activity, { rollout }) => {
        if (activity === 'agentRun' && rollout?.endsWith('t-train-5/0')) throw sandboxLost();
        if (!(activity in inside)) return;
        peak[activity] = Math.max(peak[activity] ?? 0, (inside[activity] = (inside[activity] ?? 0) + 1));
        await sleep(5);
        inside[activity] = (inside[activity] ?? 0) - 1;
      },
    };
    const handle = await start(batchInput(6, 3, pipeline));
    expect((await handle.result()) as BatchResult).toMatchObject({
      groups: 6,
      rollouts: 18,
      graded: 17,
      failures: { 'sandbox-lost': 1 },
    });
    expect(world.count('computeReward')).toBe(17);
    expect(world.count('recordDispatched')).toBe(1);
    expect(peak['agentRun']).toBeLessThanOrEqual(2);
    expect(peak['computeReward']).toBeLessThanOrEqual(1);
    const lengths = await histories(handle);
    expect(lengths.length).toBeGreaterThan(2);
    // Rollouts that were open when it was full end their stages in the same history.
    expect(Math.max(...lengths)).toBeLessThan(3 * SUGGESTED);
  });

  it('reports how its last rollouts ended, in whatever history they ended, and starts from the ends before it', async () => {
    world.script = {
      before: (activity) => {
        if (activity === 'generate') throw sandboxImpossible();
      },
    };
    const handle = await start(
      batchInput(6, 4, pipeline, {
        breaker: { maxConsecutiveFailures: 12, share: 1 },
        lately: Array(10).fill('sandbox-impossible'),
      }),
    );
    const { ends, rollouts } = (await handle.result()) as BatchResult;
    expect([rollouts, ends?.length, new Set(ends?.map(([, end]) => end))]).toEqual([
      24,
      24,
      new Set(['sandbox-impossible']),
    ]);
    expect((await histories(handle)).length).toBeGreaterThan(1);
    const [last] = await carriedOver(handle);
    expect(last?.watch?.breaker).toEqual({ last: Array(12).fill('sandbox-impossible'), isOpen: true });
  });

  it('draws groups by need across its histories', async () => {
    world.script = { turn: () => 'finish', reward: (rollout) => (/t-train-\d*[02468]\/1$/.test(rollout) ? 0 : 1) };
    const handle = await start(batchInput(24, 2, { type: 'bounded', maxParallelAgents: 6 }, { wanted: 5 }));
    const result = (await handle.result()) as BatchResult;
    expect(result.groups).toBeGreaterThanOrEqual(9);
    expect(result.groups).toBeLessThan(24);
    expect(result).toMatchObject({ rollouts: 2 * result.groups, graded: 2 * result.groups });
    expect((await histories(handle)).length).toBeGreaterThan(1);
  });

  it('draws whole batches again across its histories, and judges the last one alone', async () => {
    // Of groups 0 to 5 none varies, of the next six three do.
    world.script = { turn: () => 'finish', reward: (rollout) => (/t-train-[678]\/1$/.test(rollout) ? 0 : 1) };
    const handle = await start(
      batchInput(18, 2, { type: 'bounded', maxParallelAgents: 6 }, { replace: { groups: 6, minReplaceRatio: 0.3 } }),
    );
    expect((await handle.result()) as BatchResult).toMatchObject({ groups: 12, rollouts: 24, graded: 24 });
    expect(world.count('computeReward')).toBe(24);
    expect((await histories(handle)).length).toBeGreaterThan(1);
  });

  it('pauses in one history and is resumed in a later one', async () => {
    world.script = { turn: ({ turn }) => (turn < 2 ? 'reply' : 'finish') };
    const handle = await start(batchInput(6, 3, pipeline));
    for (const at of [3, 9]) {
      await expect.poll(() => world.count('computeReward')).toBeGreaterThan(at);
      await handle.signal('pause');
      await standstill(world);
      expect((await handle.query<BatchStatus>('status')).paused).toBe(true);
      await handle.signal('resume');
    }
    expect((await handle.result()) as BatchResult).toMatchObject({ rollouts: 18, graded: 18 });
    expect(world.count('computeReward')).toBe(18);
  });

  it('cancels the rollouts of every history, and ends when they have ended', async () => {
    let hold = false;
    world.script = {
      before: async (activity) => {
        while (hold && activity === 'agentRun') await sleep(50);
      },
    };
    const handle = await start(batchInput(15, 4, pipeline));
    await expect.poll(async () => (await histories(handle)).length, { interval: 500 }).toBeGreaterThan(2);
    hold = true;
    await untilHeld();
    const { started, ended } = await handle.query<BatchStatus>('status');
    expect(started - ended).toBeGreaterThan(4);
    await handle.cancel();
    await expect(handle.result()).rejects.toThrow();
    hold = false;
    expect((await handle.describe()).status.name).toBe('CANCELLED');
    // A rollout reports its end as its last action, and the list of workflows lags behind.
    const open = async () => {
      const ids: string[] = [];
      for await (const { workflowId } of world.now.client.workflow.list({
        query: `WorkflowType = 'rollout' AND ExecutionStatus = 'Running'`,
      }))
        ids.push(workflowId);
      return ids;
    };
    await expect.poll(open).toEqual([]);
  });
});

it('a run that is cancelled ends its batch in any of its histories', async () => {
  let held = 0;
  const go = Promise.withResolvers<void>();
  world.script = {
    turn: () => 'finish',
    before: async (activity, { rollout = '' }) => {
      if (activity !== 'generate' || !rollout.includes('/step-1/')) return;
      // Rollouts that started in the first history must end in it.
      if ((await histories(world.now.client.workflow.getHandle('train/ended/step-1'))).length < 2) return;
      held += 1;
      await lasting(go.promise);
    },
  };
  const handle = await world.start('train', 'train/ended', {
    run: 'ended',
    policy: { base: '/p' },
    task: { name: 't', train: 60 },
    steps: 1,
    batch: { tasks: 15, samples: 2 },
    evaluation: { tasks: 1, greedy: false },
    dispatcher: { type: 'bounded', maxParallelAgents: 4 },
  });
  const batch = world.now.client.workflow.getHandle('train/ended/step-1');
  await expect.poll(() => held).toBe(4);
  expect((await histories(batch)).length).toBeGreaterThan(1);
  await handle.cancel();
  await expect(handle.result()).rejects.toThrow();
  go.resolve();
  expect((await batch.describe()).status.name).toBe('CANCELLED');
  expect(world.count('computeReward')).toBeLessThan(30);
});

describe('a batch that started as a short one', () => {
  it('continues in a new history if its rollouts fail one by one, and ends every one once', async () => {
    world.script = {
      turn: () => 'finish',
      before: (activity, { rollout }) => {
        if (activity === 'computeReward' && !rollout?.endsWith('/3')) throw sandboxImpossible();
      },
    };
    const handle = await world.start('batch', newId(), batchInput(7, 4, pipeline));
    expect((await handle.result()) as BatchResult).toMatchObject({
      rollouts: 28,
      graded: 7,
      failures: { 'sandbox-impossible': 21 },
    });
    expect(world.count('computeReward')).toBe(28);
    const lengths = await histories(handle);
    expect(lengths.length).toBeGreaterThan(2);
    expect(Math.max(...lengths)).toBeLessThan(3 * SUGGESTED);
  });

  it('cancels rollouts that started before and after it became long', async () => {
    let hold = false;
    world.script = {
      before: async (activity) => {
        while (hold && activity === 'agentRun') await sleep(50);
      },
    };
    const handle = await world.start('batch', newId(), batchInput(15, 4, pipeline));
    await expect.poll(() => world.count('computeReward')).toBeGreaterThan(5);
    hold = true;
    await untilHeld();
    await handle.cancel();
    await expect(handle.result()).rejects.toThrow();
    hold = false;
    expect((await handle.describe()).status.name).toBe('CANCELLED');
  });
});

describe('the length of a history', () => {
  it('bounds the rollouts that must end in it by the most events that each may add', () => {
    const fresh = { historyLength: 0, continueAsNewSuggested: false };
    expect([
      hasRoom(199, fresh, []),
      hasRoom(200, fresh, []),
      hasRoom(89, fresh, ['reward']),
      hasRoom(90, fresh, ['reward']),
    ]).toEqual([true, false, true, false]);
    expect([
      hasRoom(0, { ...fresh, historyLength: 2985 }, []),
      hasRoom(0, { ...fresh, historyLength: 2986 }, []),
    ]).toEqual([true, false]);
    expect(hasRoom(0, { historyLength: 10, continueAsNewSuggested: true }, [])).toBe(false);
  });

  it('makes a batch long if its rollouts may add more events than there is room for', () => {
    expect([isLong(300, []), isLong(301, []), isLong(120, ['reward']), isLong(121, ['reward'])]).toEqual([
      false,
      true,
      false,
      true,
    ]);
    expect(isFull({ historyLength: 2999, continueAsNewSuggested: false })).toBe(false);
    expect(isFull({ historyLength: 3000, continueAsNewSuggested: false })).toBe(true);
    expect([
      isFull({ historyLength: 2600, continueAsNewSuggested: false }, 99),
      isFull({ historyLength: 2600, continueAsNewSuggested: false }, 100),
    ]).toEqual([false, true]);
    expect(isFull({ historyLength: 10, continueAsNewSuggested: true })).toBe(true);
  });
});
