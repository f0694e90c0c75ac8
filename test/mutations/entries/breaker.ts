/** Rollouts that all fail alike. */

import type { Mutation } from '../mutation.ts';

const FAULT = 'everything fails in the same way (a broken image, a dead endpoint)';
const CIRCUIT_BREAKER_TEST = 'test/workflows/failures/circuit-breaker.test.ts';
const BREAKING_TEST = 'test/workflows/failures/breaking.test.ts';
const LATE_WORDS_TEST = 'test/workflows/late-words.test.ts';
const UPDATE_TEST = 'test/activities/update/update.test.ts';

export const breaker: readonly Mutation[] = [
  {
    name: 'the breaker hears no row of failures',
    fault: FAULT,
    file: 'workflows/failures/circuit-breaker.ts',
    before:
      'if (row.length === maxConsecutiveFailures && row.every((one) => one === failure)) return maxConsecutiveFailures;\n',
    after: '',
    tests: [
      { file: CIRCUIT_BREAKER_TEST, test: 'opens at the third failure alike in a row' },
      { file: BREAKING_TEST, test: 'a run whose rollouts fail alike is paused' },
    ],
  },
  {
    name: 'a circuit that opens before its run has begun is not told of',
    fault: FAULT,
    file: 'workflows/training/steering.ts',
    before: '    if (this.#earlyTrip) training.trip(this.#earlyTrip);\n',
    after: '',
    tests: [
      { file: LATE_WORDS_TEST, test: 'a circuit that opened before the run had started pauses it with its reason' },
    ],
  },
  {
    name: 'the breaker hears no share of failures',
    fault: FAULT,
    file: 'workflows/failures/circuit-breaker.ts',
    before:
      'this.#last.length === windowOf(this.#settings) && failed >= share * this.#last.length\n      ? this.#last.length\n     ',
    after: 'failed < 0 * share ? this.#last.length',
    tests: [{ file: CIRCUIT_BREAKER_TEST, test: 'opens if half of the last twelve fail alike' }],
  },
  {
    name: 'the breaker counts what a policy did',
    fault: FAULT,
    file: 'workflows/failures/circuit-breaker.ts',
    before: 'failure !== undefined && FAILURES[failure].breaks ? failure : null;',
    after: 'failure ?? null;',
    tests: [{ file: CIRCUIT_BREAKER_TEST, test: 'opens only for failure classes of machines' }],
  },
  {
    name: 'a batch tells nobody that its breaker opened',
    fault: FAULT,
    file: 'workflows/failures/failure-watch.ts',
    before: 'if (trip && parent',
    after: 'if (trip && parent && !trip',
    tests: [{ file: BREAKING_TEST, test: 'a run whose rollouts fail alike is paused' }],
  },
  {
    name: 'a run whose breaker opened goes on',
    fault: FAULT,
    file: 'workflows/training/steering.ts',
    before: "this.#pause('turn');\n    if (this.#training) this.#training.trip(trip);",
    after: 'if (this.#training) this.#training.trip(trip);',
    tests: [{ file: BREAKING_TEST, test: 'a run whose rollouts fail alike is paused' }],
  },
  {
    name: 'what fails while its run is paused is masked',
    fault: FAULT,
    file: 'workflows/rollout.ts',
    before: 'if (isRepeated && context.paused) return',
    after: 'if (isRepeated && !context) return',
    tests: [{ file: BREAKING_TEST, test: 'work that fails while its run is paused is retried once it is resumed' }],
  },
  {
    name: 'a run goes on after a step of which nothing was graded',
    fault: FAULT,
    file: 'workflows/training/run-pause.ts',
    before: "this.set('turn');\n    this.trip(ungradedTrip(record), record.step);",
    after: 'void record;',
    tests: [
      {
        file: BREAKING_TEST,
        test: 'a step of which nothing was graded leaves the policy as it was, and the run waits',
      },
    ],
  },
  {
    name: 'groups of an asynchronous run each count for themselves',
    fault: FAULT,
    file: 'workflows/training/training.ts',
    before: 'this.#tripBy(this.#overlap?.unitEnded(report));',
    after: 'this.#overlap?.unitEnded(report);',
    tests: [
      {
        file: BREAKING_TEST,
        test: 'an asynchronous run is paused by rollouts that fail alike in one group after the other',
      },
    ],
  },
  {
    name: 'each batch of a run counts failures from nothing',
    fault: FAULT,
    file: 'workflows/failures/failure-watch.ts',
    before: 'progress?.breaker ?? { last: lately }',
    after: 'progress?.breaker ?? { last: lately.slice(0, 0) }',
    tests: [
      { file: BREAKING_TEST, test: 'a run (sync) is paused by failures that form a row only across two of its steps' },
    ],
  },
  {
    name: 'a run does not hear how the rollouts of its batches ended',
    fault: FAULT,
    file: 'workflows/training/training.ts',
    before: 'if (this.pauseAt === null) this.#tripBy(this.#failures.add(result));\n',
    after: '',
    tests: [
      { file: BREAKING_TEST, test: 'a run whose steps are smaller than the breaker looks back is paused by the share' },
    ],
  },
  {
    name: 'a run forgets its failures in a new history',
    fault: FAULT,
    file: 'workflows/training/training.ts',
    before: 'new RunFailures(config.breaker ?? DEFAULT_BREAKER, progress.failures)',
    after: 'new RunFailures(config.breaker ?? DEFAULT_BREAKER)',
    tests: [
      { file: BREAKING_TEST, test: 'a run whose steps are smaller than the breaker looks back is paused by the share' },
    ],
  },
  {
    name: 'a long batch forgets its failures in a new history',
    fault: FAULT,
    file: 'workflows/batch/batch-execution.ts',
    before: 'watch: this.#failures.progress,\n',
    after: '',
    tests: [
      {
        file: 'test/workflows/batch/long-batches.test.ts',
        test: 'reports how its last rollouts ended, in whatever history they ended',
      },
    ],
  },
  {
    name: 'what ended before somebody looked is heard again',
    fault: FAULT,
    file: 'workflows/failures/run-failures.ts',
    before: 'ends.filter(([at]) => at >= this.#lookedAt)',
    after: 'ends.filter(([at]) => at >= 0)',
    tests: [{ file: 'test/workflows/failures/run-failures.test.ts', test: 'from before a resume do not count' }],
  },
  {
    name: 'a run goes on after every second step of which nothing was graded',
    fault: FAULT,
    file: 'workflows/training/run-pause.ts',
    before: 'this.trip(ungradedTrip(record), record.step);',
    after: 'this.trip(ungradedTrip(record), record.step + 1);',
    tests: [{ file: BREAKING_TEST, test: 'each of several steps of which nothing was graded pauses the run' }],
  },
  {
    name: 'a step of which nothing was graded is trained on',
    fault: FAULT,
    file: 'activities/update/update.ts',
    before: 'if (prepared.valid === 0 && !input.mayBeUngraded) {',
    after: 'if (prepared.valid < 0 && !input.mayBeUngraded) {',
    tests: [{ file: UPDATE_TEST, test: 'with no graded rollout at all is refused for good' }],
  },
  {
    name: 'a step of which nothing was graded fails a run that could be paused',
    fault: FAULT,
    file: 'activities/update/update.ts',
    before: 'if (prepared.valid === 0 && !input.mayBeUngraded) {',
    after: 'if (prepared.valid === 0) {',
    tests: [
      { file: UPDATE_TEST, test: 'with no graded rollout at all carries the policy over if its run can be paused' },
    ],
  },
];
