/**
 * Hunts messages whose calls outlast their activity: the rollout would be masked, and the policy would escape a low
 * reward. Real bubblewrap sandboxes; the tests count calls that ran, never time.
 */

import { TaskLoader } from '../../../tasks/task-loader.ts';
import { beforeEach, describe, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import { MAX_CALLS } from '../../../activities/agent-run/message-budget.ts';
import type { ActRecord, AnswerRecord, GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { dyingAt, inActivity, useWorld } from '../world.ts';

const { provider } = await openBench();
const world = useWorld();
let serial = 0;
let attempt = { run: 'r', rollout: '', attempt: 1, task: 'swe-mini-train-0' };

function parts(store = world.now.store) {
  const host = { host: 'here', maxLiveSandboxes: 1, sandboxTtlSeconds: 60 };
  return {
    ...createInitActivities({ store, tasks: new TaskLoader(store), provider, ...host }),
    ...createAgentRunActivities({ store, tasks: new TaskLoader(store), provider, ...host }),
  };
}
const act = (
  turn: number,
  store = world.now.store,
  sandbox = `${attempt.rollout}#1`,
  limits: { toolTimeoutSeconds: number; withinMs?: number } = { toolTimeoutSeconds: 1 },
) => inActivity(() => parts(store).agentRun({ ...attempt, sandbox, host: 'here', turn, ...limits }));

async function policyCalled(turn: number, commands: readonly string[]): Promise<void> {
  const calls = commands.map((command) =>
    command === 'finish' ? { name: 'finish', arguments: {} } : { name: 'bash', arguments: { command } },
  );
  await world.now.store.putOnce<GenerateRecord>(keys.generate(attempt, turn), {
    version: 0,
    appended: [1],
    reset: false,
    sampled: [2],
    logprobs: [-1],
    end: 'stop',
    parsed: { kind: 'calls', content: '', calls },
  });
}
const told = async (turn = 1) =>
  ((await world.now.store.get<ActRecord>(keys.act(attempt, turn)))?.messages ?? []).map(({ content }) => content);
const ranCalls = async (turn = 1) =>
  (await world.now.store.list<AnswerRecord>(keys.answer(attempt, turn, 0).slice(0, -1))).filter(
    ({ value }) => !value.notRun,
  ).length;

beforeEach(async () => {
  attempt = { ...attempt, rollout: `budget-${serial++}` };
  await inActivity(() => parts().prepare(attempt));
  return async () => {
    for (const id of await provider.list()) await provider.destroy(id);
  };
});

describe('calls of one message', () => {
  it('that take three times the limit of one leave no time for others, which are refused, and the rollout continues', async () => {
    await policyCalled(1, [...Array.from({ length: 30 }, () => 'sleep 999'), 'finish']);
    await expect(act(1, dyingAt(world.now.store, 'putOnce', 'act:'))).rejects.toThrow('killed here');
    expect(await act(1)).toMatchObject({ unfinished: true });
    expect(await ranCalls()).toBe(3);
    const [first, , third, fourth, ...others] = await told();
    expect([first, third]).toEqual(Array.from({ length: 2 }, () => expect.stringContaining('timed out after 1 s')));
    expect(fourth).toBe(
      'Error: not run: the calls of this message have taken their 3 seconds. Make it in the next one.',
    );
    expect(others.slice(0, 26)).toEqual(Array.from({ length: 26 }, () => fourth));
    // Calls that ran are recorded: none of them runs again after the worker was killed.
    expect(await world.now.store.repeats()).toMatchObject({ tool: 0 });
    await policyCalled(2, ['echo on']);
    await act(2);
    expect(await told(2)).toEqual(['on']);
  });

  it('are counted from the records if a worker is killed between two of them', async () => {
    await policyCalled(1, ['sleep 999', 'sleep 999', 'sleep 999', 'sleep 999', 'echo never']);
    const key = keys.answer(attempt, 1, 2);
    await expect(act(1, dyingAt(world.now.store, 'putOnce', key))).rejects.toThrow('killed here');
    await act(1);
    expect(await ranCalls()).toBe(3);
    expect((await told()).at(-1)).toContain('not run');
  });

  it('are limited in number, and the others are refused', async () => {
    await policyCalled(
      1,
      Array.from({ length: MAX_CALLS + 3 }, (_, i) => `echo ${i} >> told; echo ${i}`),
    );
    await act(1);
    expect(await ranCalls()).toBe(MAX_CALLS);
    expect((await told()).slice(MAX_CALLS - 1)).toEqual([
      String(MAX_CALLS - 1),
      ...Array.from({ length: 3 }, () => expect.stringContaining('not run: a message may make 32 calls')),
    ]);
  });

  it('that were not run are not run in a replaced sandbox either', async () => {
    await policyCalled(1, ['echo a > a; sleep 999', 'sleep 999', 'sleep 999', 'echo b > b']);
    await act(1);
    await provider.destroy(`${attempt.rollout}#1`);
    const { sandbox } = await inActivity(() =>
      parts().restoreSandbox({ ...attempt, restore: 1, toolTimeoutSeconds: 1 }),
    );
    await policyCalled(2, ['[ -e a ] && ! [ -e b ] && echo a alone']);
    await act(2, world.now.store, sandbox?.sandbox);
    expect(await told(2)).toEqual(['a alone']);
  });

  it('end with the rollout’s deadline if that comes first, and report how long they ran', async () => {
    await policyCalled(1, ['echo a; sleep 999', 'echo b', 'finish']);
    const { ms, unfinished } = await act(1, world.now.store, `${attempt.rollout}#1`, {
      toolTimeoutSeconds: 900,
      withinMs: 2500,
    });
    expect(ms).toBeGreaterThanOrEqual(2500);
    expect(unfinished).toBe(true);
    expect(await ranCalls()).toBe(1);
    expect(await told()).toEqual([
      expect.stringContaining('timed out'),
      expect.stringContaining('have taken their 3 seconds'),
      expect.stringContaining(''),
    ]);
  });
});
