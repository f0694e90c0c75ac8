/** Limits that are reached: a rollout's deadline, and the length of a batch's history. */

import type { Mutation } from '../mutation.ts';

const DEADLINE = "a rollout's deadline passes";
const LENGTH = 'a batch costs more events than expected, because its rollouts fail one by one';
const DEADLINE_TEST = 'test/workflows/rollout/deadline.test.ts';
const BUDGET_TEST = 'test/activities/agent-run/message-budget.test.ts';
const LONG_BATCHES_TEST = 'test/workflows/batch/long-batches.test.ts';

export const limits: readonly Mutation[] = [
  {
    name: 'a policy that wastes its time is masked',
    fault: DEADLINE,
    file: 'workflows/rollout/rollout-clock.ts',
    before: "if (isOwn && this.#atDeadline === 'grade' &&",
    after: "if (!isOwn && this.#atDeadline === 'grade' &&",
    tests: [
      { file: DEADLINE_TEST, test: 'is graded as it is if its own turns took the time' },
      { file: DEADLINE_TEST, test: 'is masked where machines took most of it' },
    ],
  },
  {
    name: 'a turn that the deadline cut off is graded with what was before it',
    fault: DEADLINE,
    file: 'workflows/rollout/rollout-loop.ts',
    before: "turn: phase === 'generate' ? state.turn - 1 : state.turn }",
    after: 'turn: state.turn }',
    tests: [{ file: DEADLINE_TEST, test: 'is graded without the turn that was being sampled' }],
  },
  {
    name: 'a call outlasts the deadline',
    fault: DEADLINE,
    file: 'activities/agent-run/message-budget.ts',
    before: 'this.#seconds = Math.min(LIMITS_PER_MESSAGE * toolTimeoutSeconds, withinMs / 1000);',
    after: 'void withinMs;\n    this.#seconds = LIMITS_PER_MESSAGE * toolTimeoutSeconds;',
    tests: [{ file: BUDGET_TEST, test: 'end with the rollout’s deadline if that comes first', hangs: true }],
  },
  {
    name: 'a batch that was thought short stays in its history',
    fault: LENGTH,
    file: 'workflows/batch/history-budget.ts',
    before: 'this.#long ||= !hasRoom(',
    after: 'this.#long &&= !hasRoom(',
    tests: [{ file: LONG_BATCHES_TEST, test: 'continues in a new history if its rollouts fail one by one' }],
  },
  {
    name: 'a batch that turned long does not wait for those that must end in its history',
    fault: LENGTH,
    file: 'workflows/batch/history-budget.ts',
    before: 'return this.isFull && this.#bound.size === 0;',
    after: 'return this.isFull;',
    tests: [
      { file: LONG_BATCHES_TEST, test: 'continues in a new history if its rollouts fail one by one', hangs: true },
    ],
  },
];
