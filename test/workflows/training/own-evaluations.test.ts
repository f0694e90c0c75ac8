/**
 * Hunts evaluations of a run that hold more rollouts, or sandboxes, than its dispatcher may: the sampled and the greedy
 * one share its width. Not asserted: what runs beside them if rollouts and updates overlap.
 */
import { expect, it } from 'vitest';
import { useWorkflowWorld } from '../../support/use-world.ts';

const world = useWorkflowWorld();
const config = (run: string, dispatcher: object) => ({
  run,
  policy: { base: '/p' },
  task: { name: 't', train: 10 },
  steps: 1,
  batch: { tasks: 1, samples: 2 },
  evaluation: { tasks: 8 },
  dispatcher,
});

it.each([
  ['bounded', { type: 'bounded', maxParallelAgents: 2 }, 2],
  ['pipeline', { type: 'pipeline', maxParallelAgents: 1, maxEvalParallelAgents: 1 }, 3],
] as const)('%s: no more sandboxes live than one of its batches may have', async (run, dispatcher, most) => {
  const handle = await world.start('train', `train/${run}`, config(run, dispatcher));
  await handle.result();
  const evaluated = world.now.log.calls.flatMap(({ rollout }) => /eval-0-(sampled|greedy)/.exec(rollout)?.[1] ?? []);
  expect(new Set(evaluated)).toEqual(new Set(['sampled', 'greedy']));
  expect(evaluated.lastIndexOf('sampled')).toBeLessThan(evaluated.indexOf('greedy'));
  expect(world.now.log.peakLive).toBeLessThanOrEqual(most);
});
