/** GPU workers that evaluations, or somebody else's server, keep busy. */

import type { Mutation } from '../../mutation.ts';

const FAULT = 'sweeps, or a slow endpoint, keep the GPU workers busy while a run trains';
const URGENCY_TEST = 'test/trainer/sampler/urgency.test.ts';
const PRIORITY_TEST = 'test/trainer/sampler/priority.test.ts';

export const sharedPool: readonly Mutation[] = [
  {
    name: 'the engine serves evaluations and training as they come',
    fault: FAULT,
    file: 'trainer/sampler/urgency.ts',
    before: 'return arrived + priority * patienceMs;',
    after: 'return arrived + 0 * priority * patienceMs;',
    tests: [
      { file: URGENCY_TEST, test: 'treats a request without a priority as training' },
      {
        file: PRIORITY_TEST,
        test: 'of the policy trained overtakes evaluations that wait, and those that fill the passes',
      },
    ],
  },
  {
    name: 'an evaluation waits for all of training',
    fault: FAULT,
    file: 'trainer/sampler/urgency.ts',
    before: 'return arrived + priority * patienceMs;',
    after: 'return arrived + priority * patienceMs * 1e6;',
    tests: [{ file: URGENCY_TEST, test: 'starves no request' }],
  },
  {
    name: 'a pass is of the policy that was let in first',
    fault: FAULT,
    file: 'trainer/sampler/batcher.ts',
    before: 'const [first] = this.#rows;',
    after: 'const [first] = this.#rows.toSorted((a, b) => a.begun - b.begun);',
    tests: [
      {
        file: PRIORITY_TEST,
        test: 'of the policy trained overtakes evaluations that wait, and those that fill the passes',
      },
    ],
  },
  {
    name: 'an update waits for all evaluations that were asked for',
    fault: FAULT,
    file: 'trainer/sampler/sampler.ts',
    before: 'this.#until = dueAt(performance.now(), ORDINARY, this.#options.patienceMs);',
    after: 'void ORDINARY;',
    tests: [{ file: PRIORITY_TEST, test: 'that run pause during an update, and end after it' }],
  },
  {
    name: "the engine is not told an activity's priority",
    fault: FAULT,
    file: 'activities/generate/generate.ts',
    before: '...(priority === undefined ? {} : { priority })',
    after: '...(priority === undefined ? {} : {})',
    tests: [
      {
        file: 'test/workflows/batch/engine-priority.test.ts',
        test: "a sweep's turns have a lower priority in the engine than training's",
      },
    ],
  },
  {
    name: "what waits for an endpoint takes the engine's places",
    fault: FAULT,
    file: 'workflows/activity-stubs.ts',
    before: 'const onEndpoints = { ...onGpu, taskQueue: QUEUES.endpoint } as const;',
    after: 'const onEndpoints = onGpu;',
    tests: [
      {
        file: 'test/workflows/failures/slow-endpoints.test.ts',
        test: 'turns that fill every place of an endpoint leave the engine its own',
        hangs: true,
      },
    ],
  },
];
