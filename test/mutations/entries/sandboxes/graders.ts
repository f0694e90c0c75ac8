/** Grading that fails, and is never a reward of 0; grading that nobody waits for, and that does not go on. */

import type { Mutation } from '../../mutation.ts';

const FAULT = "a grader's sandbox is killed, the grader fails, or a signal, a lack of memory or a frozen host ends it";
const COLLECTION = 'a signal, a lack of memory or a frozen host ends the collection';
const LOST = 'the worker of a grading is lost';
const GIVEN_UP = 'a grading is cancelled, or the server abandons it';
const REWARD_TEST = 'test/activities/reward/reward.test.ts';
const KILLED_TEST = 'test/tasks/swe-mini/killed-grader.test.ts';
const HOST_AT_FAULT_TEST = 'test/tasks/swe-mini/host-at-fault.test.ts';
const HOSTILE_TEST = 'test/tasks/swe-mini/hostile.test.ts';
const GRADING_ENDS_TEST = 'test/activities/reward/grading-ends.test.ts';
const CANCELLED_GRADING_TEST = 'test/workflows/rollout/cancelled-grading.test.ts';

export const graders: readonly Mutation[] = [
  {
    name: 'a grader that lost its sandbox is not told from a rollout that did',
    fault: FAULT,
    file: 'activities/reward/reward.ts',
    before:
      'if (error instanceof SandboxLost || error instanceof SandboxUnavailable || error instanceof QuestionRefused)',
    after: 'if (error instanceof QuestionRefused)',
    tests: [{ file: REWARD_TEST, test: 'of its own sandbox for the grader' }],
  },
  {
    name: "a grader's own failure is a reward of 0",
    fault: FAULT,
    file: 'activities/reward/reward.ts',
    before:
      "if (verdict.code !== 'graded') throw new GraderFailed(verdict.reason);\n    return withMetrics(verdict, metrics);",
    after:
      "return verdict.code === 'graded' ? withMetrics(verdict, metrics) : { code: 'graded', reward: 0, passed: false, reason: verdict.reason };",
    tests: [
      {
        file: REWARD_TEST,
        test: "throws a grader's own failure, records nothing, and grades again in another sandbox",
      },
    ],
  },
  {
    name: 'it is graded again in the same sandbox',
    fault: FAULT,
    file: 'activities/reward/grading-rounds.ts',
    before: 'await store.putOnce<UngradedRecord>(keys.ungraded(input, round), {',
    after: 'await store.putOnce<UngradedRecord>(`no-${keys.ungraded(input, round)}`, {',
    tests: [
      {
        file: REWARD_TEST,
        test: "throws a grader's own failure, records nothing, and grades again in another sandbox",
      },
    ],
  },
  {
    name: 'git that was cut off is taken for no change',
    fault: COLLECTION,
    file: 'tasks/swe-mini/collect.ts',
    before: 'if (cut === undefined) return taken(result, bounds);',
    after: 'if (cut !== null) return taken(result, bounds);',
    tests: [
      { file: HOST_AT_FAULT_TEST, test: 'takes a time-out for no word on what changed' },
      { file: HOST_AT_FAULT_TEST, test: 'takes a signal for no word on what changed' },
      { file: HOST_AT_FAULT_TEST, test: 'takes a lack of memory for no word on what changed' },
    ],
  },
  {
    name: 'a collection that was cut off is never the doing of the policy',
    fault: COLLECTION,
    file: 'tasks/swe-mini/collect.ts',
    before: 'undefined)\n     ',
    after: 'null)',
    tests: [
      { file: HOST_AT_FAULT_TEST, test: 'takes the diff again after a time-out' },
      { file: HOST_AT_FAULT_TEST, test: 'blames the agent for a time-out twice' },
    ],
  },
  {
    name: 'the control of a late collection takes no processor time',
    fault: COLLECTION,
    file: 'tasks/swe-mini/collect.ts',
    before: 'result.timedOut ? Math.min(result.cpuMs ?? 0, bounds.cpuMs) : 0',
    after: '0',
    tests: [{ file: HOST_AT_FAULT_TEST, test: 'lets the control take as much processor time as what was late' }],
  },
  {
    name: 'folders may be nested without end',
    fault: COLLECTION,
    file: 'tasks/swe-mini/tidy.ts',
    before: 'if left < 0 or depth > ${most.depth} or size > ${most.pathBytes}:',
    after: 'if left < 0:',
    tests: [{ file: HOSTILE_TEST, test: 'in the workspace are no diff' }],
  },
  {
    name: 'processor time is not counted',
    fault: COLLECTION,
    file: 'sandboxes/supervisor/native/calls.c',
    before: 'c->spent = processor_used(c) >= c->budget;',
    after: 'c->spent = false;',
    tests: [
      { file: 'test/sandboxes/limits.test.ts', test: 'ends processes beside each other, each with less', hangs: true },
    ],
  },
  {
    name: 'processor time of children that nobody waits for is not counted',
    fault: COLLECTION,
    file: 'sandboxes/supervisor/native/processor.c',
    before: 'return group_ms(&ms) ? ms : watched_ms();',
    after: 'return seen_ms();',
    tests: [
      {
        file: 'test/sandboxes/limits.test.ts',
        test: 'ends a process that ignores the end of its children, which live for some time',
      },
    ],
  },
  {
    name: 'a diff that is late to apply fails its grader',
    fault: FAULT,
    file: 'tasks/swe-mini/grade.ts',
    before: 'if (timedOut) return zero(',
    after: "if (timedOut && first === 'applied') return zero(",
    tests: [{ file: HOST_AT_FAULT_TEST, test: 'scores 0 a diff that is late to apply twice' }],
  },
  {
    name: 'a sandbox that is lost while it is graded in always fails the grader',
    fault: FAULT,
    file: 'tasks/swe-mini/grade.ts',
    before: 'if (error instanceof SandboxLost || error instanceof SandboxUnavailable) return LOST;\n',
    after: '',
    tests: [{ file: HOST_AT_FAULT_TEST, test: 'asks the control about a sandbox that is lost' }],
  },
  {
    name: 'answers that came late are not asked for again',
    fault: FAULT,
    file: 'tasks/swe-mini/grade.ts',
    before: 'if (fault !== undefined || !(first.timedOut || cutOffBy(first))) return',
    after: 'if (fault !== undefined || !cutOffBy(first)) return',
    tests: [{ file: HOST_AT_FAULT_TEST, test: 'pays for right answers that came late once' }],
  },
  {
    name: 'work that was late on a host that stood still is to blame',
    fault: FAULT,
    file: 'tasks/swe-mini/grade.ts',
    before: 'faultOfHost(stoppedBy(second)',
    after: 'faultOfHost(cutOffBy(second)',
    tests: [
      {
        file: HOST_AT_FAULT_TEST,
        test: 'blames no work that was late twice where the control is late too: without a word',
      },
      {
        file: HOST_AT_FAULT_TEST,
        test: 'blames no work that was late twice where the control is late too: after the diff applied',
      },
    ],
  },
  {
    name: 'a control that is late is taken for one that ended',
    fault: FAULT,
    file: 'tasks/swe-mini/grade.ts',
    before: 'stoppedBy(control) ??',
    after: 'cutOffBy(control) ??',
    tests: [
      {
        file: HOST_AT_FAULT_TEST,
        test: 'blames no work that was late twice where the control is late too: after the diff applied',
      },
      {
        file: HOST_AT_FAULT_TEST,
        test: 'blames no work that was late twice where the control is late too: after its results',
      },
    ],
  },
  {
    name: 'a grader that was killed is taken for wrong answers',
    fault: FAULT,
    file: 'tasks/swe-mini/grade.ts',
    before: 'if (timedOut || isSpent(ending) || resultsIn(output)) return undefined;',
    after: 'if (timedOut || isSpent(ending) || output.length >= 0) return undefined;',
    tests: [
      { file: KILLED_TEST, test: 'grades again: the right fix earns 1' },
      { file: HOST_AT_FAULT_TEST, test: 'is graded again where the control ends: a signal to Python' },
      { file: HOST_AT_FAULT_TEST, test: 'is graded again where the control ends: a lack of memory' },
    ],
  },
  {
    name: 'git that was killed in the grader is taken for a diff that does not apply',
    fault: FAULT,
    file: 'tasks/swe-mini/grade.ts',
    before: "'case $? in 0) echo applied ;; 1 | 128) echo rejected; exit 0 ;; *) exit 137 ;; esac',",
    after: "'case $? in 0) echo applied ;; *) echo rejected; exit 0 ;; esac',",
    tests: [{ file: KILLED_TEST, test: 'every time, whatever it grades, has failed: git by SIGPIPE' }],
  },
  {
    name: 'where the grader is killed whatever it grades, the work is blamed',
    fault: FAULT,
    file: 'tasks/swe-mini/grade.ts',
    before: 'if (why === undefined) return undefined;\n',
    after: 'if (why !== null) return undefined;\n',
    tests: [
      { file: KILLED_TEST, test: 'every time, whatever it grades, has failed: python3 by SIGKILL' },
      { file: HOST_AT_FAULT_TEST, test: 'blames no work where the control is cut off too: a signal to Python' },
    ],
  },
  {
    name: 'a grader that gets no sandbox fails the work, not the grader',
    fault: FAULT,
    file: 'tasks/swe-mini/grade.ts',
    before: "return { code: 'grader-failed', reason: error.message };",
    after: "return { code: 'graded', reward: 0, passed: false, reason: error.message };",
    tests: [{ file: 'test/tasks/swe-mini/grade.test.ts', test: 'where no sandbox can be had' }],
  },
  {
    name: 'a grader is waited for, whoever has given it up',
    fault: GIVEN_UP,
    file: 'activities/or-aborted.ts',
    before: "signal.addEventListener('abort', abort);\n",
    after: '',
    tests: [{ file: CANCELLED_GRADING_TEST, test: 'a rollout that is cancelled while it is graded' }],
  },
  {
    name: "a grader's sandbox outlives its execution",
    fault: GIVEN_UP,
    file: 'activities/reward/grading-rounds.ts',
    before: 'leaves = await continues(error, signal, isNewest);',
    after: '',
    tests: [{ file: GRADING_ENDS_TEST, test: 'ends at once with its sandbox and its lease, and its grader’s result' }],
  },
  {
    name: 'leases of graders run out while they are at work',
    fault: GIVEN_UP,
    file: 'sandboxes/leased-provider.ts',
    before: '(made ? this.leases.renew(made, this.owner, ttlSeconds) : renewLease())',
    after: 'Promise.resolve()',
    tests: [{ file: GRADING_ENDS_TEST, test: 'lives on with its lease for as long as it is graded in' }],
  },
  {
    name: 'the sweeper does not know the leases of graders',
    fault: GIVEN_UP,
    file: 'sandboxes/sweep.ts',
    before: '[SANDBOX_LEASE, GRADER_LEASE]',
    after: '[SANDBOX_LEASE]',
    tests: [{ file: GRADING_ENDS_TEST, test: 'is swept when its owner has ended and its worker was killed' }],
  },
  {
    name: "a killed worker's grader is left to its lease",
    fault: GIVEN_UP,
    file: 'activities/reward/grading-rounds.ts',
    before: 'if (last === 0) return;',
    after: 'if (last >= 0) return;',
    tests: [{ file: GRADING_ENDS_TEST, test: 'ends what that left also if the verdict is recorded' }],
  },
  {
    name: 'a grader that lost its sandbox to a retry has its word',
    fault: GIVEN_UP,
    file: 'activities/reward/grading-rounds.ts',
    before: 'if (await isNewest()) return await store.putOnce(keys.verdict(input), verdict);',
    after: 'if (execution > 0) return await store.putOnce(keys.verdict(input), verdict);',
    tests: [
      {
        file: GRADING_ENDS_TEST,
        test: 'has other sandboxes after a failure, and no verdict comes from those of before',
      },
    ],
  },
  {
    name: 'a task’s limit of its grading is not used',
    fault: LOST,
    file: 'workflows/rollout/rollout-stages.ts',
    before: 'context.taskLimits = limits;',
    after: '',
    tests: [
      {
        file: 'test/workflows/rollout/task-limits.test.ts',
        test: 'a task’s limits hold for its tools and its grading in place, also in a new history',
      },
    ],
  },
  {
    name: 'a frozen grader ends the sandbox of its retry',
    fault: GIVEN_UP,
    file: 'activities/reward/grading-rounds.ts',
    before: 'destroy: async (id) => {\n      await guard();',
    after: 'destroy: async (id) => {',
    tests: [{ file: GRADING_ENDS_TEST, test: 'alone makes and ends sandboxes' }],
  },
  {
    name: 'a grading starts again when its worker is lost',
    fault: LOST,
    file: 'activities/reward/grading-rounds.ts',
    before: 'id: `${prefixOf(input)}${number}`, provider',
    after: 'id: `${prefixOf(input)}${execution}`, provider',
    tests: [
      { file: GRADING_ENDS_TEST, test: 'is followed by one that attaches to the call under way: it runs once' },
      { file: GRADING_ENDS_TEST, test: 'attaches to the call under way, and ends the sandbox with its verdict' },
      { file: 'test/activities/example-environments.test.ts', test: 'keeps-running: a grading outlives its worker' },
    ],
  },
];
