/** Histories that many open rollouts make long, and what goes on in the next one. */

import type { Mutation } from '../mutation.ts';

const AT_ONCE =
  'so many rollouts of a batch are open that beginning, pausing, probing or ending them fills its history';
const SIZE = "a batch's state is too large for Temporal to pass to its next history";
const GATE = 'a rollout waits for days at a gate';
const COUNTED = 'a rollout counts as failed (masked, or a straggler), and its grader ends later';
const BY_HAND = 'one batch of a run, or one group, is terminated or cancelled by hand';
const AT_ONCE_TEST = 'test/workflows/batch/all-at-once.test.ts';
const RELAY_TEST = 'test/workflows/pause-relay.test.ts';
const PROBE_TEST = 'test/workflows/batch/probe.test.ts';
const CARRIED_TEST = 'test/workflows/batch/carried-over.test.ts';
const LONG_ROLLOUTS_TEST = 'test/workflows/rollout/long-rollouts.test.ts';
const OVERLAP_TEST = 'test/workflows/training/overlap/async-pipeline.test.ts';
const OPEN_BATCH = 'workflows/batch/batch-execution.ts';

export const fullHistories: readonly Mutation[] = [
  {
    name: 'all rollouts of a batch begin before one has shown in its history',
    fault: AT_ONCE,
    file: 'workflows/batch/history-budget.ts',
    before: 'return CHUNK - this.#beginning;',
    after: 'return CHUNK;',
    tests: [{ file: AT_ONCE_TEST, test: 'start a chunk at a time' }],
  },
  {
    name: 'a full history tells every rollout of a pause',
    fault: AT_ONCE,
    file: 'workflows/pause-relay.ts',
    before: '    if (this.#resting) return [];\n',
    after: '',
    tests: [
      { file: AT_ONCE_TEST, test: 'receive a pause and its end' },
      { file: RELAY_TEST, test: 'a history that ends sends no more signals' },
    ],
  },
  {
    name: 'whom a full history did not tell of a pause nobody tells',
    fault: AT_ONCE,
    file: OPEN_BATCH,
    before: 'this.#children.handle(index), unsignalled.has(index));',
    after: 'this.#children.handle(index), unsignalled.size < 0);',
    tests: [{ file: AT_ONCE_TEST, test: 'receive a pause and its end' }],
  },
  {
    name: 'what a full history gave up the next one does not end',
    fault: AT_ONCE,
    file: OPEN_BATCH,
    before: 'if (givenUp.length > 0) this.#pending',
    after: 'if (givenUp.length < 0) this.#pending',
    tests: [{ file: AT_ONCE_TEST, test: 'are given up over several histories', hangs: true }],
  },
  {
    name: 'those that a full history did not come to ask wait for the next round',
    fault: AT_ONCE,
    file: OPEN_BATCH,
    before: 'progress?.unasked',
    after: '[]',
    tests: [{ file: AT_ONCE_TEST, test: 'checks at once those that the previous one did not reach', hangs: true }],
  },
  {
    name: 'a full history asks every rollout whether it lives',
    fault: AT_ONCE,
    file: 'workflows/batch/probe.ts',
    before: 'while (this.#unasked.length > 0 && !this.#resting) {',
    after: 'while (this.#unasked.length > 0) {',
    tests: [{ file: PROBE_TEST, test: 'a round continues in the next history' }],
  },
  {
    name: 'a batch hands on each number by itself',
    fault: SIZE,
    file: 'workflows/batch/packed.ts',
    before: 'all.push(isRun ? [first, count, second - first] : first);',
    after:
      'void second;\n    for (const one of numbers.slice(at, at + (isRun ? count : 1))) all.push(one);\n    void first;',
    tests: [{ file: CARRIED_TEST, test: 'fits where it is as large as a batch may be' }],
  },
  {
    name: 'failures that are heard while a history ends are not on record',
    fault: COUNTED,
    file: 'workflows/batch/ledger.ts',
    before: 'this.#unrecorded = [...unrecorded];',
    after: 'this.#unrecorded = unrecorded.slice(unrecorded.length);',
    tests: [
      { file: AT_ONCE_TEST, test: 'records what failed while the previous one was ending' },
      { file: CARRIED_TEST, test: 'has the failures that are not recorded yet' },
    ],
  },
  {
    name: 'a rollout that waits at a gate stays in its history',
    fault: GATE,
    file: 'workflows/rollout.ts',
    before: '    if (isFull(now, context)) return now;\n',
    after: '',
    tests: [{ file: LONG_ROLLOUTS_TEST, test: 'a wait for days at a gate' }],
  },
  {
    name: 'a new history lets a rollout through its gate',
    fault: GATE,
    file: 'workflows/rollout.ts',
    before: "} else if (stageOf(state) === 'agent-run' && !context.gates.isOpen('agent-run')) {",
    after: "} else if (stageOf(state) === 'agent-run' && context.rounds < 0) {",
    tests: [{ file: LONG_ROLLOUTS_TEST, test: 'a wait for days at a gate' }],
  },
  {
    name: 'a run forgets in a new history that it is to look for a unit',
    fault: BY_HAND,
    file: 'workflows/training/training.ts',
    before: 'if (progress.missed) this.#overlap?.lookSoon();',
    after: '',
    tests: [{ file: OVERLAP_TEST, test: 'looks for a group that was ended by hand without a report', hangs: true }],
  },
  {
    name: 'a run forgets in a new history that a group failed',
    fault: BY_HAND,
    file: 'workflows/train.ts',
    before: '        training.throwIfFailed();\n',
    after: '',
    tests: [{ file: OVERLAP_TEST, test: 'is none where a group failed that no step has waited for' }],
  },
];
