/**
 * Hunts batches whose many open rollouts make one history long because all start, receive a pause or are given up at
 * once; and work that is lost or done twice when this continues in the next history. The server is real and suggests a
 * new history early; activities are scripted.
 */
import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { CHUNK } from '../../../workflows/batch/history-budget.ts';
import type { BatchStatus } from '../../../protocol/batch.ts';
import type { BatchProgress } from '../../../workflows/batch/progress.ts';
import type { BatchResult } from '../../../protocol/batch.ts';
import type { RolloutState } from '../../../workflows/rollout.ts';
import { lasting } from '../../support/scripted-activities.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const SUGGESTED = 100;
const SAMPLES = 4;
/** The starts and ends of the rollouts beyond a chunk are more than one history holds. */
const SOME = { tasks: 35, rollouts: 35 * SAMPLES };
/** More than two chunks: a history that is full after the first one may take the second one with it, and no third. */
const MANY = { tasks: 51, rollouts: 51 * SAMPLES };
const world = useWorkflowWorld([`--dynamic-config-value=limit.historyCount.suggestContinueAsNew=${SUGGESTED}`]);

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
const tasksOf = (tasks: number) => Array.from({ length: tasks }, (_, i) => `t-train-${i}`);
const start = (name: string, tasks: readonly string[], over: object = {}, progress = nothingYet) =>
  world.start(
    'batch',
    `all/${name}`,
    {
      run: 'all',
      name,
      step: 1,
      tasks,
      samples: SAMPLES,
      policy: { uri: 'file:///p', version: 1 },
      agent: { maxTurns: 9, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
      sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
      seed: 1,
      dispatcher: { type: 'batch' },
      ...over,
    },
    progress,
  );

interface Told {
  readonly beginning: number;
  readonly told: number;
  readonly cancelled: number;
}
/** By run id, for histories that have ended. */
const known = new Map<string, Told>();

/**
 * For each history, oldest first: the most unanswered starts at once, and its signals and cancellations to rollouts.
 */
async function historiesOf({ workflowId }: WorkflowHandle) {
  const { client } = world.now;
  const histories: Told[] = [];
  for await (const { runId, status } of client.workflow.list({ query: `WorkflowId = '${workflowId}'` })) {
    const read = known.get(runId);
    if (read) {
      histories.unshift(read);
      continue;
    }
    const { events = [] } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    let [now, most, told, cancelled] = [0, 0, 0, 0];
    for (const event of events ?? []) {
      if (event.signalExternalWorkflowExecutionInitiatedEventAttributes) told += 1;
      if (event.requestCancelExternalWorkflowExecutionInitiatedEventAttributes) cancelled += 1;
      if (event.startChildWorkflowExecutionInitiatedEventAttributes) now += 1;
      if (event.childWorkflowExecutionStartedEventAttributes) now -= 1;
      most = Math.max(most, now);
    }
    const one = { beginning: most, told, cancelled };
    if (status.name !== 'RUNNING') known.set(runId, one);
    histories.unshift(one);
  }
  return histories;
}
const begun = async (handle: WorkflowHandle) => (await handle.query<BatchStatus>('status')).started;

/** Nothing is sampled until it is released. */
function held() {
  const go = Promise.withResolvers<void>();
  world.script = {
    turn: () => 'finish',
    before: (activity) => (activity === 'generate' ? lasting(go.promise) : undefined),
  };
  return () => go.resolve();
}

afterEach(() => expect(world.now.log.live).toBe(0));

describe('many rollouts at once', () => {
  it('start a chunk at a time, over several histories, each of them once', async () => {
    world.script = { turn: () => 'finish' };
    const { tasks, rollouts } = SOME;
    const handle = await start('begin', tasksOf(tasks));
    expect((await handle.result()) as BatchResult).toMatchObject({ rollouts, graded: rollouts });
    expect([world.count('prepare'), world.count('computeReward'), world.count('recordDispatched')]).toEqual([
      rollouts,
      rollouts,
      1,
    ]);
    const histories = await historiesOf(handle);
    expect(histories.length).toBeGreaterThan(2);
    expect(Math.max(...histories.map(({ beginning }) => beginning))).toBe(CHUNK);
  }, 400_000);

  it('receive a pause and its end over several histories', async () => {
    const go = held();
    const { tasks, rollouts } = MANY;
    const handle = await start('pause', tasksOf(tasks));
    await expect.poll(() => begun(handle), { timeout: 200_000, interval: 500 }).toBe(rollouts);
    const before = (await historiesOf(handle)).length;
    await handle.signal('pause');
    const words = async () => (await historiesOf(handle)).reduce((sum, { told }) => sum + told, 0);
    // A rollout that missed the pause would continue, and need no resume.
    await expect.poll(words, { interval: 1000 }).toBe(rollouts);
    const ids = Array.from({ length: 10 }, (_, i) => `all/pause/t-train-${i * 5}/${i % SAMPLES}`);
    const paused = () =>
      Promise.all(
        ids.map(async (id) => (await world.now.client.workflow.getHandle(id).query<RolloutState>('state')).paused),
      );
    await expect.poll(async () => new Set(await paused()), { interval: 1000 }).toEqual(new Set([true]));
    await handle.signal('resume');
    // If it is released earlier, a paused rollout in its last turn is graded, and needs no resume.
    await expect.poll(words, { interval: 1000 }).toBe(2 * rollouts);
    go();
    expect((await handle.result()) as BatchResult).toMatchObject({ rollouts, graded: rollouts });
    expect(world.count('computeReward')).toBe(rollouts);
    const histories = await historiesOf(handle);
    expect(histories.length).toBeGreaterThan(before + 2);
    // One chunk more than a history holds.
    for (const { told } of histories) expect(told).toBeLessThanOrEqual(2 * CHUNK);
  }, 500_000);

  it('are given up over several histories when the time of their batch is over', async () => {
    const go = held();
    const { tasks, rollouts } = MANY;
    const handle = await start('deadline', tasksOf(tasks), { stragglers: { deadlineSeconds: 15 } });
    expect((await handle.result()) as BatchResult).toMatchObject({
      rollouts,
      graded: 0,
      failures: { deadline: rollouts },
    });
    go();
    for (const { cancelled } of await historiesOf(handle)) expect(cancelled).toBeLessThanOrEqual(2 * CHUNK);
  }, 400_000);
});

describe('a new history', () => {
  it('records what failed while the previous one was ending', async () => {
    const recorded: string[] = [];
    world.script = {
      before: async (activity, { rollout = '' }) => {
        if (activity === 'prepare') throw ApplicationFailure.nonRetryable('no such image', 'SandboxImpossible');
        if (activity !== 'recordFailures') return;
        recorded.push(...rollout.split(' '));
        // Others fail meanwhile.
        await sleep(500);
      },
    };
    const handle = await start('failing', tasksOf(9), { dispatcher: { type: 'bounded', maxParallelAgents: 6 } });
    expect((await handle.result()) as BatchResult).toMatchObject({ rollouts: 36, graded: 0 });
    expect((await historiesOf(handle)).length).toBeGreaterThan(1);
    expect(recorded.length).toBe(36);
    expect(new Set(recorded).size).toBe(36);
  });

  it('checks at once those that the previous one did not reach', async () => {
    const places = { ...nothingYet.places, init: [0, 1, 2, 3] };
    const handle = await start(
      'asking',
      ['t-train-0'],
      {},
      { ...nothingYet, started: 4, sampling: { begun: 1, ended: 0, varied: 0 }, places, unasked: [3, 0, 2, 1] },
    );
    // No workflow has that id.
    expect((await handle.result()) as BatchResult).toMatchObject({ rollouts: 4, failures: { internal: 4 } });
  });
});
