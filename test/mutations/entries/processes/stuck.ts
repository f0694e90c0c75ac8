/** Rollouts that make no progress. */

import type { Mutation } from '../../mutation.ts';

const FAULT = 'a rollout makes no progress';
const STALL_TEST = 'test/workers/watchdog/stall.test.ts';
const WATCHDOG_TEST = 'test/workers/watchdog/watchdog.test.ts';
const WORKFLOWS_TEST = 'test/workflows/workflows.test.ts';
const STRAGGLERS_TEST = 'test/workflows/batch/stragglers.test.ts';

export const stuck: readonly Mutation[] = [
  {
    name: 'a queue without a worker is not named',
    fault: FAULT,
    file: 'workers/watchdog/stall.ts',
    before: "if (state === 'scheduled' && pollers === 0 && waited >= NO_WORKER_MS) return noWorker(queue);\n",
    after: '',
    tests: [
      { file: STALL_TEST, test: 'is what no worker has polled for in a minute' },
      { file: WATCHDOG_TEST, test: 'a rollout that waits for a host without a worker is found by its run' },
    ],
  },
  {
    name: 'what was paused by hand is taken for what no worker takes',
    fault: FAULT,
    file: 'workers/watchdog/stall.ts',
    before: "if (state === 'paused') return waited >= NO_WORKER_MS ? paused(pending) : undefined;\n",
    after: '',
    tests: [{ file: STALL_TEST, test: 'is what somebody has paused, with the command that resumes it' }],
  },
  {
    name: 'what fails again and again is not named',
    fault: FAULT,
    file: 'workers/watchdog/stall.ts',
    before: 'if (attempt >= FAILING_ATTEMPT && failure) return',
    after: 'if (attempt < 0 && failure) return',
    tests: [
      { file: STALL_TEST, test: 'is what fails for the third time' },
      { file: WATCHDOG_TEST, test: 'says each thing that is stuck once in the log' },
    ],
  },
  {
    name: 'what was silent is called a bug',
    fault: FAULT,
    file: 'workflows/failures/classify-failure.ts',
    before: "return cause instanceof TimeoutFailure ? classOfTimeout(cause) : 'internal';",
    after: "return 'internal';",
    tests: [{ file: STALL_TEST, test: 'is what timed out for the third time' }],
  },
  {
    name: 'what does not end is not named',
    fault: FAULT,
    file: 'workers/watchdog/stall.ts',
    before: "if (state === 'started' && waited >= (SLOW_MS[activity] ?? NO_SLOT_MS)) {",
    after: "if (state === 'started' && waited < 0) {",
    tests: [{ file: STALL_TEST, test: 'is what waits among busy workers, or runs, for ten minutes' }],
  },
  {
    name: 'a run whose own code fails again and again is not named',
    fault: FAULT,
    file: 'workers/watchdog/find-stalls.ts',
    before: 'pending.attempt < FAILING_ATTEMPT) return pending;',
    after: 'pending.attempt < Number.POSITIVE_INFINITY) return pending;',
    tests: [{ file: WATCHDOG_TEST, test: 'a run whose own code fails again and again is named' }],
  },
  {
    name: 'among many rollouts only the new ones are looked at',
    fault: FAULT,
    file: 'workers/watchdog/choose-workflows.ts',
    before: '...rollouts.slice(0, oldest), ...young]',
    after: '...rollouts.slice(-oldest), ...young]',
    tests: [
      { file: STALL_TEST, test: 'asks about what all others wait for, about the rollouts that have run for longest' },
    ],
  },
  {
    name: 'a look that failed is not told',
    fault: FAULT,
    file: 'workers/watchdog/watchdog.ts',
    before: '!this.#unseen.has(what',
    after: "this.#unseen.has(''",
    tests: [{ file: WATCHDOG_TEST, test: 'says that it could not look, once, where the server does not answer' }],
  },
  {
    name: 'the details of a run do not say what is stuck in it',
    fault: FAULT,
    file: 'workers/watchdog/watchdog.ts',
    before: 'await this.#runs.report(ownerOf(run), lines);\n',
    after: '',
    tests: [
      { file: WATCHDOG_TEST, test: 'says each thing that is stuck once in the log' },
      { file: WATCHDOG_TEST, test: 'what another watchdog told a run is taken out again' },
    ],
  },
  {
    name: 'the watchdog does not look',
    fault: FAULT,
    file: 'workers/watchdog/watchdog.ts',
    before: 'const timer = setInterval(() => void (looking ??= round()), intervalMs);',
    after: 'const timer = setInterval(() => void (looking ??= undefined), intervalMs);\n  void round;',
    tests: [{ file: WATCHDOG_TEST, test: 'says each thing that is stuck once in the log' }],
  },
  {
    name: 'a rollout has no deadline while it samples',
    fault: FAULT,
    file: 'activities/own-time.ts',
    before: 'if (ms === Number.POSITIVE_INFINITY) return work(signal);',
    after: 'if (ms > 0) return work(signal);',
    tests: [
      { file: WORKFLOWS_TEST, test: 'is masked at its deadline, in the middle of generate' },
      { file: 'test/activities/own-time.test.ts', test: 'an attempt that is over its time ends' },
    ],
  },
  {
    name: 'a rollout has no deadline while its tools run',
    fault: FAULT,
    file: 'activities/agent-run/agent-run.ts',
    before: 'inItsTime(withinMs === undefined ? undefined : withinMs + TURN_ENDS_MS,',
    after: 'inItsTime(withinMs === undefined || TURN_ENDS_MS ? undefined : withinMs,',
    tests: [
      { file: 'test/activities/agent-run/agent-run.test.ts', test: 'ends by itself half a minute after the deadline' },
    ],
  },
  {
    name: 'a deadline that its worker told is another failure',
    fault: FAULT,
    file: 'protocol/failure-policy.ts',
    before: "errors: ['DeadlinePassed'],",
    after: 'errors: [],',
    tests: [
      { file: WORKFLOWS_TEST, test: 'is masked at its deadline, in the middle of agentRun' },
      {
        file: 'test/workflows/failures/endpoint-down.test.ts',
        test: "the rollout's own time, if it is shorter, is still a deadline",
      },
    ],
  },
  {
    name: 'a pause spends the deadline of a rollout',
    fault: FAULT,
    file: 'workflows/rollout.ts',
    before: '  } finally {\n    context.clock.exclude(Date.now() - since);',
    after: '  } finally {\n    context.clock.exclude(0 * since);',
    tests: [{ file: WORKFLOWS_TEST, test: 'spends none of its deadline while it is paused' }],
  },
  {
    name: 'a batch has no deadline',
    fault: FAULT,
    file: 'workflows/batch/batch-execution.ts',
    before: "this.#giveUp(this.#children.members(0, this.groups), 'deadline');",
    after: '',
    tests: [
      {
        file: STRAGGLERS_TEST,
        test: 'gives up at its deadline running rollouts and those that have not started, and keeps what was graded',
        hangs: true,
      },
    ],
  },
  {
    name: 'a group waits for its last members',
    fault: FAULT,
    file: 'workflows/batch/stragglers.ts',
    before: 'return completeGroupWithout > 0 && ended < samples',
    after: 'return completeGroupWithout < 0 && ended < samples',
    tests: [
      { file: STRAGGLERS_TEST, test: 'completes a group without its last members if it is configured to', hangs: true },
    ],
  },
];
