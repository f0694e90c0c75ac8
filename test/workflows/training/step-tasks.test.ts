/** Hunts tasks that another mode would not draw, and noise that two rollouts share. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { openedConfig } from '../../support/some-tasks.ts';
import { limitsOf } from '../../../workflows/training/modes.ts';
import { StalenessGate } from '../../../workflows/training/overlap/staleness-gate.ts';
import { aimOf, byNeedOf, tasksOfGroup, tasksOfStep } from '../../../workflows/training/step-tasks.ts';

const config = (batch: object, over: object = {}) =>
  openedConfig({ policy: { base: '/p' }, task: { name: 't', train: 30 }, batch, ...over });

it('the groups by their numbers are those of the steps, each with its own noise', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 20 }), (tasks, step) => {
      const given = config({ tasks });
      const groups = Array.from({ length: tasks }, (_, i) => tasksOfGroup(given, (step - 1) * tasks + i + 1));
      expect(groups.flatMap((group) => group.tasks)).toEqual(tasksOfStep(given, step).tasks);
      expect(new Set(groups.map((group) => `${group.step}/${group.tasks[0]}`)).size).toBe(tasks);
      expect(groups.every((group) => group.step === step && group.wanted === undefined)).toBe(true);
    }),
  );
});

it('a group that must vary draws from its own share of what its step may draw', () => {
  const given = config({ tasks: 2, dynamicSampling: { type: 'filter', maxSampleBatches: 3 } });
  const [one, two] = [tasksOfGroup(given, 3), tasksOfGroup(given, 4)];
  const all = tasksOfStep(given, 2);
  expect(all).toMatchObject({ wanted: 2 });
  expect([one.wanted, two.wanted]).toEqual([1, 1]);
  expect([one.tasks[0], two.tasks[0]]).toEqual(all.tasks.slice(0, 2));
  expect([...one.tasks, ...two.tasks].sort()).toEqual(all.tasks.toSorted());
});

it('a step that replaces groups draws whole batches of them, the same tasks as by filter', () => {
  const given = config({ tasks: 2, dynamicSampling: { type: 'replace', maxSampleBatches: 3 } });
  const drawn = tasksOfStep(given, 2);
  expect(drawn).toMatchObject({ replace: { groups: 2, minReplaceRatio: 0.3 } });
  expect(new Set(drawn.tasks).size).toBe(6);
  expect(drawn.tasks).toEqual(
    tasksOfStep(config({ tasks: 2, dynamicSampling: { type: 'filter', maxSampleBatches: 3 } }), 2).tasks,
  );
  expect([aimOf(drawn), byNeedOf(drawn)]).toEqual([2, { replace: drawn.replace }]);
  expect(aimOf(tasksOfStep(config({ tasks: 2 }), 2))).toBe(2);
});

it("as many groups run as fit into the dispatcher's width, one at least, and one batch at a time one step off", () => {
  const parallel = (dispatcher: object, mode = 'async') =>
    limitsOf(config({ tasks: 2, samples: 4 }, { dispatcher, training: { mode } })).parallel;
  expect(parallel({ type: 'bounded', maxParallelAgents: 19 })).toBe(4);
  expect(parallel({ type: 'pipeline', maxParallelAgents: 3 })).toBe(1);
  expect(parallel({ type: 'batch' })).toBe(1000);
  expect(parallel({ type: 'bounded', maxParallelAgents: 19 }, 'one-step-off')).toBe(1);
});

/** Why: Temporal fails the workflow task that would start its 2,001st open child, on every attempt. */
it('no more groups run at once than a workflow may have children', () => {
  const admitted = (batch: object, dispatcher: object) => {
    const given = config(batch, { task: { name: 't', train: 1000 }, training: { mode: 'async' }, dispatcher });
    return new StalenessGate(given.batch.tasks).admit({ uri: 'file:///', version: 0 }, limitsOf(given)).length;
  };
  expect(admitted({ tasks: 450 }, { type: 'batch' })).toBe(1000);
  expect(admitted({ tasks: 450, samples: 2 }, { type: 'bounded', maxParallelAgents: 4000 })).toBe(1000);
  expect(admitted({ tasks: 200 }, { type: 'batch' })).toBe(1000);
  expect(admitted({ tasks: 450, samples: 2 }, { type: 'bounded', maxParallelAgents: 8 })).toBe(4);
});
