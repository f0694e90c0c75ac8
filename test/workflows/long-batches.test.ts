/**
 * Hunts a large batch that outgrows one history, and what could be lost where it goes on in a new one: an end, a place at
 * a gate, a pause, a cancellation. The server is real and suggests a new history every few rollouts; activities are scripted.
 */
import type { WorkflowHandle } from '@temporalio/client';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { BatchStatus } from '../../workflows/batch.ts';
import { isFull, isLong } from '../../workflows/batch/long-batch.ts';
import type { BatchResult, DispatcherSettings } from '../../workflows/types.ts';
import { sandboxLost } from '../support/scripted-activities.ts';
import { useWorkflowWorld } from '../support/use-world.ts';

const SUGGESTED = 240;
const world = useWorkflowWorld([`--dynamic-config-value=limit.historyCount.suggestContinueAsNew=${SUGGESTED}`]);
let ids = 0;
const newId = () => `train/long/batch-${ids++}`;
const batchInput = (tasks: number, samples: number, dispatcher: DispatcherSettings, over: object = {}) => ({
  run: 'long', name: 'b', step: 1, tasks: Array.from({ length: tasks }, (_, i) => `t-train-${i}`), samples, policy: { dir: '/p', version: 1 },
  agent: { maxTurns: 9, maxContextTokens: 1000, toolTimeoutSeconds: 10 }, sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
  seed: 1, dispatcher, ...over,
});
const pipeline = { type: 'pipeline', maxParallelAgents: 8, maxEvalParallelAgents: 4 } as const;

/** Lengths of the histories that a workflow went through, oldest first. */
async function histories({ workflowId }: WorkflowHandle): Promise<number[]> {
  const { client } = world.now;
  const lengths: number[] = [];
  for await (const run of client.workflow.list({ query: `WorkflowId = '${workflowId}'` })) lengths.unshift(Number(run.historyLength));
  return lengths;
}

/** Until nothing has been called for three seconds; returns how much was. */
async function standstill(): Promise<number> {
  for (let seen = -1; ; await sleep(3000)) {
    const now = world.now.log.calls.length;
    if (now === seen) return now;
    seen = now;
  }
}

afterEach(() => expect(world.now.log.live).toBe(0));

describe('a long batch', () => {
  it('goes on in new histories, keeps its widths, and ends every rollout once', async () => {
    const inside: Record<string, number> = { agentRun: 0, computeReward: 0 };
    const peak: Record<string, number> = { agentRun: 0, computeReward: 0 };
    world.script = {
      before: async (activity, { rollout }) => {
        if (activity === 'agentRun' && rollout?.includes('t-train-7/')) throw sandboxLost();
        if (!(activity in inside)) return;
        peak[activity] = Math.max(peak[activity] ?? 0, (inside[activity] = (inside[activity] ?? 0) + 1));
        await sleep(5);
        inside[activity] = (inside[activity] ?? 0) - 1;
      },
    };
    const handle = await world.start('batch', newId(), batchInput(31, 4, pipeline));
    expect((await handle.result()) as BatchResult).toMatchObject({ groups: 31, rollouts: 124, graded: 120, failures: { 'sandbox-lost': 4 } });
    expect(world.count('computeReward')).toBe(120);
    expect(world.count('recordDispatched')).toBe(1);
    expect(peak['agentRun']).toBeLessThanOrEqual(8);
    expect(peak['computeReward']).toBeLessThanOrEqual(4);
    const lengths = await histories(handle);
    expect(lengths.length).toBeGreaterThan(3);
    // Those that were open when it was full end their stages in the same history.
    expect(Math.max(...lengths)).toBeLessThan(2 * SUGGESTED);
  }, 300_000);

  it('draws groups by need across its histories', async () => {
    world.script = { turn: () => 'finish', reward: (rollout) => (/t-train-\d*[02468]\/1$/.test(rollout) ? 0 : 1) };
    const handle = await world.start('batch', newId(), batchInput(160, 2, { type: 'bounded', maxParallelAgents: 16 }, { wanted: 40 }));
    const result = (await handle.result()) as BatchResult;
    expect(result.groups).toBeGreaterThanOrEqual(79);
    expect(result.groups).toBeLessThan(130);
    expect(result).toMatchObject({ rollouts: 2 * result.groups, graded: 2 * result.groups });
    expect((await histories(handle)).length).toBeGreaterThan(1);
  }, 300_000);

  it('pauses in one history and is resumed in whichever it is', async () => {
    world.script = { turn: ({ turn }) => (turn < 2 ? 'hint' : 'finish') };
    const handle = await world.start('batch', newId(), batchInput(31, 4, pipeline));
    for (const at of [20, 60]) {
      await expect.poll(() => world.count('computeReward'), { timeout: 90_000 }).toBeGreaterThan(at);
      await handle.signal('pause');
      const calls = await standstill();
      expect((await handle.query<BatchStatus>('status')).paused).toBe(true);
      await sleep(1000);
      expect(world.now.log.calls.length).toBe(calls);
      await handle.signal('resume');
    }
    expect((await handle.result()) as BatchResult).toMatchObject({ rollouts: 124, graded: 124 });
    expect(world.count('computeReward')).toBe(124);
  }, 300_000);

  it('cancels the rollouts of every history, and ends when they have ended', async () => {
    let hold = false;
    world.script = { before: async (activity) => { while (hold && activity === 'agentRun') await sleep(50); } };
    const handle = await world.start('batch', newId(), batchInput(31, 4, pipeline));
    await expect.poll(async () => (await histories(handle)).length, { timeout: 120_000, interval: 500 }).toBeGreaterThan(2);
    hold = true;
    await standstill();
    const { started, ended } = await handle.query<BatchStatus>('status');
    expect(started - ended).toBeGreaterThan(8);
    await handle.cancel();
    await expect(handle.result()).rejects.toThrow();
    hold = false;
    expect((await handle.describe()).status.name).toBe('CANCELLED');
    const open: string[] = [];
    for await (const run of world.now.client.workflow.list({ query: `WorkflowType = 'rollout' AND ExecutionStatus = 'Running'` })) open.push(run.workflowId);
    expect(open).toEqual([]);
  }, 300_000);
});

describe('the length of a history', () => {
  it('makes a batch long where its rollouts may cost more than the room that there is', () => {
    expect([isLong(300, []), isLong(301, []), isLong(120, ['reward']), isLong(121, ['reward'])]).toEqual([false, true, false, true]);
    expect(isFull({ historyLength: 2999, continueAsNewSuggested: false })).toBe(false);
    expect(isFull({ historyLength: 3000, continueAsNewSuggested: false })).toBe(true);
    expect(isFull({ historyLength: 10, continueAsNewSuggested: true })).toBe(true);
  });
});
