/** Tasks that stay what they were, and answers of environments that are given once. */

import type { Mutation } from '../mutation.ts';

const CHANGED = 'the records of a dataset change while a run or an eval works on them';
const KILLED = "a worker is killed between an environment's `step` and its report";
const DEFINITIONS_TEST = 'test/tasks/definitions.test.ts';
const TEXT_ROLLOUTS_TEST = 'test/activities/text-rollouts.test.ts';

export const environments: readonly Mutation[] = [
  {
    name: 'other records take the place of those that a run started with',
    fault: CHANGED,
    file: 'tasks/task-loader.ts',
    before: 'if (source.digest !== undefined && source.digest !== dataset.digest)',
    after: "if (source.digest === '')",
    tests: [{ file: DEFINITIONS_TEST, test: 'records that have changed since the start are found by digest' }],
  },
  {
    name: 'a recorded step runs again',
    fault: KILLED,
    file: 'activities/agent-run/agent-run.ts',
    before: 'if (known) return outcomeOf(known);',
    after: 'void known;',
    tests: [{ file: TEXT_ROLLOUTS_TEST, test: 'each message is read once' }],
  },
];
