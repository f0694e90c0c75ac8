/**
 * Hunts work that waits for hours for a worker that died during it: an execution that sends no heartbeat is started
 * again, on every queue. The server is real, activities are scripted. Not asserted: processes that are killed; see
 * test/e2e.
 */
import { afterEach, expect, it } from 'vitest';
import { SOONER } from '../../support/workflow-world.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const world = useWorkflowWorld([], SOONER);
const ROLLOUT_ACTIVITIES = ['prepare', 'generate', 'agentRun', 'collect', 'computeReward'];
const policy = { uri: 'file:///p', version: 1 };
let letGo: () => void = () => undefined;
afterEach(() => letGo());

it('what a silent worker had started is started again, and every rollout ends in its first attempt', async () => {
  const over = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const begun = new Map<string, number>();
  world.script = {
    before: async (activity, { rollout = '' }) => {
      const where = `${activity} of ${rollout}`;
      begun.set(where, (begun.get(where) ?? 0) + 1);
      // A dead worker is not notified that it was given up: it only sends nothing more.
      const dies = rollout === `silent/${activity}` || where === 'recordDispatched of silent-batch';
      if (dies && begun.get(where) === 1) await over;
    },
  };
  const rollouts = await Promise.all(
    ROLLOUT_ACTIVITIES.map((activity) => world.start('rollout', `silent/${activity}`, { task: 't-train-0', policy })),
  );
  const batch = await world.start('batch', 'silent/batch', {
    run: 'silent',
    name: 'silent-batch',
    step: 1,
    tasks: ['t-train-1'],
    samples: 1,
    policy,
    seed: 1,
    dispatcher: { type: 'bounded', maxParallelAgents: 1 },
    agent: { maxTurns: 5, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
  });
  const dead = [
    ...ROLLOUT_ACTIVITIES.map((activity) => `${activity} of silent/${activity}`),
    'recordDispatched of silent-batch',
  ];
  await expect.poll(() => dead.filter((where) => (begun.get(where) ?? 0) < 2)).toEqual([]);
  for (const rollout of rollouts)
    expect(await rollout.result()).toMatchObject({ status: 'graded', attempt: 1, turns: 2 });
  expect(await batch.result()).toMatchObject({ graded: 1 });
});
