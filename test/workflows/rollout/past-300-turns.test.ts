/**
 * Hunts a rollout whose history grows to Temporal's limits, on a server with its usual settings. The activities are
 * scripted; what happens around the change of histories is in long-rollouts.test.ts.
 */
import { expect, it } from 'vitest';
import { useWorkflowWorld } from '../../support/use-world.ts';

/** The number of events at which the server suggests a new history. */
const SUGGESTED = 4096;
const world = useWorkflowWorld();

it('a rollout of 320 turns continues in a second history, before the server suggests it', async () => {
  world.script = { turn: ({ turn }) => (turn < 320 ? 'act' : 'finish') };
  const agent = { maxTurns: 1000, maxContextTokens: 1_000_000, toolTimeoutSeconds: 10 };
  const handle = await world.start('rollout', 'r', {
    task: 't-train-0',
    policy: { uri: 'file:///p', version: 1 },
    agent,
  });
  expect(await handle.result()).toMatchObject({ status: 'graded', turns: 320, attempt: 1 });
  expect([world.count('generate'), world.count('prepare')]).toEqual([320, 1]);
  const [first, second] = await Promise.all(
    [handle.firstExecutionRunId, (await handle.describe()).runId].map(async (runId) => {
      const { events } = await world.now.client.workflow.getHandle('r', runId).fetchHistory();
      return events?.length ?? 0;
    }),
  );
  expect(first).toBeGreaterThan(3000);
  expect(first).toBeLessThan(SUGGESTED);
  expect(second).toBeLessThan(1000);
});
