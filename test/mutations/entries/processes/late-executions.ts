/** Executions that were given up and live all the same. */

import type { Mutation } from '../../mutation.ts';

const FAULT = 'a worker freezes for longer than 15 s and then continues';
const LATE_ATTEMPTS_TEST = 'test/activities/late-attempts.test.ts';
const INIT_TEST = 'test/activities/init/init.test.ts';
const JOURNAL_TEST = 'test/sandboxes/journal.test.ts';

const COUNTED = 'a rollout counts as failed (masked, or a straggler), and its grader ends later';

export const lateExecutions: readonly Mutation[] = [
  {
    name: 'a result is overwritten by whoever comes second',
    fault: FAULT,
    file: 'store/sqlite-store.ts',
    before: "'INSERT OR IGNORE INTO results (key, at, sum, value) VALUES (?, ?, ?, ?)'",
    after: "'INSERT OR REPLACE INTO results (key, at, sum, value) VALUES (?, ?, ?, ?)'",
    tests: [
      { file: LATE_ATTEMPTS_TEST, test: 'a turn that was sampled late is not the turn' },
      { file: LATE_ATTEMPTS_TEST, test: 'a tool that answered late has not answered' },
      { file: LATE_ATTEMPTS_TEST, test: "an earlier attempt's verdict does not change how the rollout ended" },
      { file: LATE_ATTEMPTS_TEST, test: 'an update that ended late is not the update' },
    ],
  },
  {
    name: 'an object that came second is stored, and its own result is answered',
    fault: FAULT,
    file: 'store/sqlite-store.ts',
    before:
      "if (this.#prepare('SELECT 1 FROM results WHERE key = ?').get(key) !== undefined) return undefined;\n      const value = valueOf",
    after: 'const value = valueOf',
    tests: [{ file: LATE_ATTEMPTS_TEST, test: 'what was collected late is not what is graded' }],
  },
  {
    name: 'a turn is reported as it was sampled, not as it is on record',
    fault: FAULT,
    file: 'activities/generate/generate.ts',
    before: 'record = await store.putOnce(key, await sample({ ...input, policy }, deps, signal, priority));',
    after: 'record = await sample({ ...input, policy }, deps, signal, priority); await store.putOnce(key, record);',
    tests: [{ file: LATE_ATTEMPTS_TEST, test: 'a turn that was sampled late is not the turn' }],
  },
  {
    name: "a tool's answer is told as it came, not as it is on record",
    fault: FAULT,
    file: 'activities/agent-run/tool-calls.ts',
    before: 'return store.putOnce<AnswerRecord>(key, { ...base, ...observation, ...ran });',
    after:
      'const own: AnswerRecord = { ...base, ...observation, ...ran };\n  await store.putOnce<AnswerRecord>(key, own);\n  return own;',
    tests: [{ file: LATE_ATTEMPTS_TEST, test: 'a tool that answered late returns the record' }],
  },
  {
    name: 'a collected diff is reported as it was taken, not as it is on record',
    fault: FAULT,
    file: 'activities/agent-run/agent-run.ts',
    before:
      'return store.putOnceWithObject<CollectOutcome>(key, bytes, (artifact) => ({ artifact, bytes: bytes.length }));',
    after:
      'await store.putOnceWithObject<CollectOutcome>(key, bytes, (artifact) => ({ artifact, bytes: bytes.length })); return { artifact: await store.putObject(bytes), bytes: bytes.length };',
    tests: [{ file: LATE_ATTEMPTS_TEST, test: 'what was collected late is not what is graded' }],
  },
  {
    name: 'a verdict is reported as it was given, not as it is on record',
    fault: FAULT,
    file: 'activities/reward/grading-rounds.ts',
    before: 'if (known) return known;\n',
    after: '',
    tests: [{ file: LATE_ATTEMPTS_TEST, test: 'a verdict that came late does not count' }],
  },
  {
    name: 'a late failure ends the sandbox of a newer execution',
    fault: FAULT,
    file: 'activities/init/init.ts',
    before: 'return (await store.begun(key)) === execution;',
    after: 'return execution > 0;',
    tests: [
      { file: INIT_TEST, test: 'because its worker was frozen while another one made it, it is left to that one' },
    ],
  },
  {
    name: 'the journal does not answer for what has ended',
    fault: FAULT,
    file: 'sandboxes/supervisor/native/journal.c',
    before: 'if (!e->id) return CALL_UNKNOWN;\n  *kind = e->kind;',
    after: 'if (!e->id || e->finished) return CALL_UNKNOWN;\n  *kind = e->kind;',
    tests: [{ file: JOURNAL_TEST, test: 'changes nothing when it goes on: it gets the results that there are' }],
  },
  {
    name: 'a call that runs is not attached to',
    fault: FAULT,
    file: 'sandboxes/supervisor/native/calls.c',
    before: 'struct call *known = c->bad ? NULL : find_call(call->id);',
    after: 'struct call *known = NULL;',
    tests: [{ file: JOURNAL_TEST, test: 'goes on, is attached to by another worker, and ran once' }],
  },
  {
    name: 'a batch ends as if its last failures were on record',
    fault: COUNTED,
    file: 'workflows/batch/batch-execution.ts',
    before:
      'await condition(() => this.#pending.isSettled);\n    // The last record may fail after the loop has ended.\n    this.#pending.throwIfFailed();\n',
    after: 'await condition(() => this.#pending.isSettled);\n',
    tests: [
      {
        file: 'test/workflows/late-words.test.ts',
        test: 'a batch whose last failure cannot be recorded does not end as if it were',
      },
    ],
  },
  {
    name: 'failures are put on record when their batch has ended',
    fault: COUNTED,
    file: 'workflows/batch/batch-execution.ts',
    before: '    this.#pending.watch(this.#recordReceivedFailures());\n',
    after: '',
    tests: [
      {
        file: 'test/workflows/batch/failures-as-heard.test.ts',
        test: 'a failure is recorded before the other rollouts of its batch have ended',
      },
    ],
  },
  {
    name: 'a verdict that comes after the failure is told as if it counted',
    fault: COUNTED,
    file: 'activities/reward/reward.ts',
    before: "if (outcome.status === 'failed') throw new FailedBefore(rollout, outcome.failure ?? 'internal');\n",
    after: '',
    tests: [
      {
        file: 'test/activities/reward/reward.test.ts',
        test: 'a verdict that comes after the failure was recorded changes nothing, and reports this',
      },
    ],
  },
];
