/**
 * Hunts a task's own limits and place of grading that do not reach its activities, or that a new history forgets.
 * Not asserted: that a limit ends what takes longer; see test/activities/tries.test.ts.
 */
import { Context } from '@temporalio/activity';
import { expect, it } from 'vitest';
import type { RolloutResult } from '../../../protocol/rollout.ts';
import { sandboxLost } from '../../support/scripted-activities.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const world = useWorkflowWorld(['--dynamic-config-value=limit.historyCount.suggestContinueAsNew=80']);
const input = { task: 'toy-train-0', policy: { uri: 'file:///p', version: 0 }, agent: { maxTurns: 40 } };
const OWN = { gradedIn: 'agents', limits: { toolSeconds: 300, gradeSeconds: 1800 } } as const;

/** Of each activity, its time limits in seconds, each once, and what it was told of a tool call's. */
async function limitsOf(id: string, script: typeof world.script) {
  const seen = new Map<string, Set<string>>();
  world.script = {
    ...script,
    before: (activity, given) => {
      const { startToCloseTimeoutMs } = Context.current().info;
      const { toolTimeoutSeconds } = given as { readonly toolTimeoutSeconds?: number };
      const limits = seen.get(activity) ?? new Set();
      seen.set(activity, limits.add([startToCloseTimeoutMs / 1000, toolTimeoutSeconds ?? []].flat().join(' ')));
      return script.before?.(activity, given);
    },
  };
  const handle = await world.start('rollout', id, input);
  const result = (await handle.result()) as RolloutResult;
  const all: Readonly<Record<string, string>> = Object.fromEntries(
    [...seen].map(([name, limits]) => [name, [...limits].join(', ')]),
  );
  return { all, result };
}

it('a task without limits has those of its configuration, and defaults', async () => {
  const { all } = await limitsOf('plain', {});
  expect([all['agentRun'], all['computeReward']]).toEqual(['1080 120', '900']);
});

it('a task’s limits hold for its tools and its grading in place, also in a new history', async () => {
  const limits = await limitsOf('own', { card: () => OWN, turn: ({ turn }) => (turn < 30 ? 'act' : 'finish') });
  expect(limits).toMatchObject({
    all: { agentRun: '1800 300', gradeInPlace: '1860' },
    result: { status: 'graded', turns: 30 },
  });
  const histories = await world.now.client.workflow.getHandle('own').describe();
  expect(histories.raw.workflowExecutionInfo?.firstRunId).not.toBe(histories.runId);
  expect([world.count('collect'), world.count('computeReward')]).toEqual([0, 0]);
});

it('a sandbox that is lost while it is prepared is restored with the place of grading and the limits', async () => {
  const { all } = await limitsOf('restored', {
    card: () => OWN,
    before: (activity) => {
      if (activity === 'prepare') throw sandboxLost();
    },
  });
  expect(all).toMatchObject({ restoreSandbox: '21600 120', agentRun: '1800 300', gradeInPlace: '1860' });
});
