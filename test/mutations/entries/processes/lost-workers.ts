/** Workers that are killed in the same thing again and again, and rollouts that are held for it. */

import type { Mutation } from '../../mutation.ts';

const FAULT = 'one piece of work kills every worker that does it';
const TORN = 'a checkpoint is cut short, or has other bytes';
const DISK = 'the disk is full or read-only, or another program locks the store';
const UPDATE =
  'an update fails on all its tries (a full disk, an engine that dies each time, a torn checkpoint), or a record of the run does';
const LOST_WORKERS_TEST = 'test/activities/lost-workers.test.ts';
const TRIES_TEST = 'test/activities/tries.test.ts';
const KILLED_TEST = 'test/workflows/failures/killed-workers.test.ts';
const HELD_TEST = 'test/workflows/failures/held-rollouts.test.ts';
const RELAY_TEST = 'test/workflows/pause-relay.test.ts';
const LATE_HOLDS_TEST = 'test/workflows/failures/late-holds.test.ts';
const OWN_TIME_TEST = 'test/activities/own-time.test.ts';
const DEADLINE_TEST = 'test/workflows/rollout/deadline.test.ts';
const GENERATE_TEST = 'test/activities/generate/generate.test.ts';
const TRIES = 'activities/tries.ts';

export const lostWorkers: readonly Mutation[] = [
  {
    name: 'Temporal counts workers that were killed in a grading',
    fault: FAULT,
    file: 'workflows/activity-stubs.ts',
    before: 'retry: retry(RETRIES.reward),',
    after: 'retry: retry(RETRIES.reward, RETRIES.reward.attempts),',
    tests: [
      {
        file: KILLED_TEST,
        test: 'a rollout whose worker is killed at each grading, sampling or tool call ends as an undisturbed one',
      },
    ],
  },
  {
    name: 'lost workers have no limit',
    fault: FAULT,
    file: TRIES,
    before: '  if (lost >= LOST_WORKERS) throw new WorkersLost(info, lost);\n',
    after: '',
    tests: [
      { file: TRIES_TEST, test: 'work after too many lost workers is quarantined' },
      { file: LOST_WORKERS_TEST, test: 'computeReward starts nothing after too many lost workers' },
    ],
  },
  {
    name: 'an update reads its step before it counts lost workers',
    fault: FAULT,
    file: 'activities/update/update.ts',
    before: '  if ((await store.get(key)) === undefined) await checkWorkersLost(store);\n',
    after: '',
    tests: [{ file: LOST_WORKERS_TEST, test: 'update reads no training data after too many lost workers' }],
  },
  {
    name: 'a full disk is tried for ever where an endpoint is',
    fault: DISK,
    file: TRIES,
    before: 'if (isOfStore(name)) return info.attempt - (await onRecord(store, info)) >= most;',
    after: 'if (isOfStore(name)) return !patience && info.attempt - (await onRecord(store, info)) >= most;',
    tests: [{ file: TRIES_TEST, test: 'endless retries end for a full disk as a place’s failures do' }],
  },
  {
    name: 'failures count as lost workers',
    fault: FAULT,
    file: TRIES,
    before: 'const lost = info.attempt - 1 - known;',
    after: 'const lost = info.attempt - 1 - 0 * known;',
    tests: [
      {
        file: TRIES_TEST,
        test: 'work after too many lost workers is quarantined, and failures do not count as lost workers',
      },
    ],
  },
  {
    name: 'no failure is the last one',
    fault: FAULT,
    file: TRIES,
    before: 'if (!last || failure.nonRetryable) return failure;',
    after: 'if (last !== null || failure.nonRetryable) return failure;',
    tests: [{ file: TRIES_TEST, test: 'a failure is final when the limit is reached' }],
  },
  {
    name: 'lost workers count as failures',
    fault: FAULT,
    file: TRIES,
    before: 'const tries = await store.list<TryRecord>(keys.tries(info));',
    after:
      "const tries = Array.from({ length: info.attempt }, () => ({ value: { end: 'failed', error: '' } as const }));",
    tests: [{ file: TRIES_TEST, test: 'lost workers do not count as failures' }],
  },
  {
    name: 'a failure that the store cannot count is counted with lost workers',
    fault: FAULT,
    file: TRIES,
    before: 'failure: holds ',
    after: 'failure: holds && !failure ',
    tests: [
      { file: TRIES_TEST, test: 'a store that cannot be written still limits attempts' },
      { file: TRIES_TEST, test: 'a damaged record of attempts is reported as damage at once' },
    ],
  },
  {
    name: 'a worker that is stopped counts as lost',
    fault: FAULT,
    file: TRIES,
    before: 'if (!wasCancelled(signal) && !wasStopped(signal)) return;',
    after: 'if (!wasCancelled(signal)) return;',
    tests: [
      { file: TRIES_TEST, test: 'an execution that ends by WORKER_SHUTDOWN is neither a failure nor a lost worker' },
    ],
  },
  {
    name: 'what the server had given up counts as a failure',
    fault: FAULT,
    file: TRIES,
    before: 'if (signal.aborted || stoodStill()) throw error;',
    after: 'if (stoodStill()) throw error;',
    tests: [{ file: TRIES_TEST, test: 'an execution that the server had given up when it failed is a lost worker' }],
  },
  {
    name: 'what fails in a process that stood still counts as a failure',
    fault: FAULT,
    file: TRIES,
    before: 'if (signal.aborted || stoodStill()) throw error;',
    after: 'if (signal.aborted) throw error;',
    tests: [{ file: TRIES_TEST, test: 'a failure in a process that was frozen counts as a lost worker' }],
  },
  {
    name: 'who is resumed goes on with the tries that are spent',
    fault: FAULT,
    file: 'protocol/record-keys.ts',
    before: "${workflowExecution?.runId ?? ''}/${activityId}/`",
    after: "${workflowExecution?.runId ?? ''}/${activityId.slice(0, 0)}/`",
    tests: [
      {
        file: TRIES_TEST,
        test: 'another scheduling of the same activity, by a rollout that was resumed, has its own limits',
      },
    ],
  },
  {
    name: 'an execution that is over its time is a lost worker',
    fault: FAULT,
    file: TRIES,
    before: 'return startToCloseTimeoutMs > 2 * REPORT_MS && left',
    after: 'return startToCloseTimeoutMs < 0 && left',
    tests: [{ file: TRIES_TEST, test: 'an execution that is over its time reports this itself', hangs: true }],
  },
  {
    name: 'a deadline is told as an activity that took too long',
    fault: FAULT,
    file: TRIES,
    before: 'startToCloseTimeoutMs\n    ? startToCloseTimeoutMs - REPORT_MS\n   ',
    after: '0 ? startToCloseTimeoutMs - REPORT_MS',
    tests: [{ file: TRIES_TEST, test: 'the deadline of a rollout is reported by the server' }],
  },
  {
    name: 'what the table holds is masked',
    fault: FAULT,
    file: 'workflows/rollout.ts',
    before: "const holds = recovery === 'hold' && (context.input.holds || alwaysHolds);",
    after: "const holds = recovery === 'hold' && alwaysHolds;",
    tests: [
      { file: HELD_TEST, test: 'a single rollout whose generate is quarantined is held' },
      { file: HELD_TEST, test: 'a run (sync) whose computeReward in step-1/ cannot continue pauses' },
    ],
  },
  {
    name: 'what began before a resume is held as if it had failed since',
    fault: FAULT,
    file: 'workflows/rollout.ts',
    before: '    if (isRepeated && context.resumed > resumed) return state;\n',
    after: '',
    tests: [
      {
        file: 'test/workflows/failures/late-holds.test.ts',
        test: 'what a rollout began before it was resumed, and failed after, is repeated (holds: false)',
      },
    ],
  },
  {
    name: 'a rollout that is held tells nobody',
    fault: FAULT,
    file: 'workflows/rollout.ts',
    before: '  await reportHeld(trip, context.resumed);\n',
    after: '',
    tests: [{ file: HELD_TEST, test: 'a run (sync) whose computeReward in step-1/ cannot continue pauses' }],
  },
  {
    name: 'a batch goes on beside a rollout that is held',
    fault: FAULT,
    file: 'workflows/batch/batch-pause.ts',
    before: '    this.pause();\n    if (this.#held) return false;\n',
    after: '    if (this.#held) return false;\n',
    tests: [{ file: HELD_TEST, test: 'a single batch stops the others at a turn' }],
  },
  {
    name: 'a batch does not tell its run of a rollout that is held',
    fault: FAULT,
    file: 'workflows/batch/batch-execution.ts',
    before:
      '    this.#pending.track(this.#failures.held(trip, { name: this.#input.name, resumed: this.#pause.resumed }));\n',
    after: '',
    tests: [
      { file: HELD_TEST, test: 'a run (sync) whose computeReward in step-1/ cannot continue pauses' },
      { file: HELD_TEST, test: 'an eval whose checkpoint is torn pauses' },
    ],
  },
  {
    name: 'who stands still by himself is resumed only where he was told to pause',
    fault: FAULT,
    file: 'workflows/pause-relay.ts',
    before: '    if (known) known.isPaused = true;\n',
    after: '    void known;\n',
    tests: [
      {
        file: 'test/workflows/pause-relay.test.ts',
        test: 'a child that is held is resumed, though it received no pause',
      },
    ],
  },
  {
    name: 'a held word that crosses a resumption pauses those that it reaches',
    fault: FAULT,
    file: 'workflows/pause-relay.ts',
    before: '(this.#children.get(id)?.resumed ?? 0) > received;',
    after: '(this.#children.get(id)?.resumed ?? 0) > received + 1e9;',
    tests: [
      { file: RELAY_TEST, test: 'a report of a held child is outdated if a resume is on its way to it' },
      { file: LATE_HOLDS_TEST, test: 'a batch ignores that a rollout was held which it has resumed since' },
      { file: LATE_HOLDS_TEST, test: 'a train ignores that a rollout was held which it has resumed since' },
      { file: LATE_HOLDS_TEST, test: 'a evalSweep ignores that a rollout was held which it has resumed since' },
    ],
  },
  {
    name: 'a rollout does not count its resumptions',
    fault: FAULT,
    file: 'workflows/rollout.ts',
    before: '  context.resumed += 1;\n',
    after: '',
    tests: [{ file: LATE_HOLDS_TEST, test: 'a rollout that is held again after it was resumed pauses its run again' }],
  },
  {
    name: 'a new history of a rollout forgets how often it was resumed',
    fault: FAULT,
    file: 'workflows/rollout.ts',
    before: '    resumed,\n    allowed: gates.allowed,',
    after: '    resumed: resumed * 0,\n    allowed: gates.allowed,',
    tests: [
      {
        file: 'test/workflows/rollout/long-rollouts.test.ts',
        test: 'a rollout that is held again in a later history than it was resumed in pauses its batch again',
      },
    ],
  },
  {
    name: 'a batch does not count its resumptions',
    fault: FAULT,
    file: 'workflows/batch/batch-pause.ts',
    before: '    this.#resumed += 1;\n',
    after: '',
    tests: [{ file: LATE_HOLDS_TEST, test: 'a rollout that is held again after it was resumed pauses its run again' }],
  },
  {
    name: 'a batch that stands still before a new history of its run has begun is not resumed by that',
    fault: FAULT,
    file: 'workflows/training/steering.ts',
    before: '    for (const batch of this.#earlyHeld) training.markHeld(batch);\n',
    after: '',
    tests: [
      { file: LATE_HOLDS_TEST, test: 'a batch that was held, and whose run was resumed, before its new history' },
    ],
  },
  {
    name: 'the time that a lost worker took is its rollout’s',
    fault: FAULT,
    file: 'activities/own-time.ts',
    before: 'return lost > 0 ? { ...outcome, lostMs: lost } : outcome;',
    after: 'return lost < 0 ? { ...outcome, lostMs: lost } : outcome;',
    tests: [
      { file: KILLED_TEST, test: 'a rollout whose worker is killed gets back the time that it takes to detect this' },
      { file: OWN_TIME_TEST, test: 'the time of earlier attempts is reported as lost' },
      { file: DEADLINE_TEST, test: 'to an earlier attempt of agentRun is not the rollout' },
    ],
  },
  {
    name: 'all tries of a sampling together have what is left of the deadline',
    fault: FAULT,
    file: 'workflows/activity-stubs.ts',
    before: '{ ...onGpu, taskQueue: kindQueue(QUEUES.gpu, kind) }',
    after: '{ ...onGpu, taskQueue: kindQueue(QUEUES.gpu, kind), scheduleToCloseTimeout: 3000 }',
    tests: [{ file: DEADLINE_TEST, test: 'to an earlier attempt of generate is not the rollout' }],
  },
  {
    name: 'the wait for a worker that has the cache, and is gone, is the rollout’s',
    fault: FAULT,
    file: 'workflows/rollout/generate-near-cache.ts',
    before: 'lostMs: nearMs + (outcome.lostMs ?? 0)',
    after: 'lostMs: 0 * nearMs + (outcome.lostMs ?? 0)',
    tests: [{ file: DEADLINE_TEST, test: 'to a worker that has its cache, and is gone, is not the rollout' }],
  },
  {
    name: 'the time until a rollout is held is its own',
    fault: FAULT,
    file: 'workflows/rollout.ts',
    before:
      '    // If the rollout continues after this, the time was taken by machines.\n    context.clock.exclude(Date.now() - since);\n',
    after: '    void since;\n',
    tests: [{ file: DEADLINE_TEST, test: 'before the rollout was held is not the rollout' }],
  },
  {
    name: 'a run that pauses for nothing holds its rollouts',
    fault: FAULT,
    file: 'workflows/batch/children.ts',
    before: '...(breaker?.maxConsecutiveFailures === 0 ? { holds: false } : {})',
    after: '...(breaker?.maxConsecutiveFailures === -1 ? { holds: false } : {})',
    tests: [{ file: HELD_TEST, test: 'a run that pauses for nothing masks what it would hold', hangs: true }],
  },
  {
    name: 'an eval does not hear of a rollout that is held',
    fault: FAULT,
    file: 'workflows/eval-sweep.ts',
    before: '      sweep()?.trip(trip, held);\n',
    after: '      void [trip, held];\n',
    tests: [{ file: HELD_TEST, test: 'an eval whose checkpoint is torn pauses' }],
  },
  {
    name: 'rollouts are masked for a torn checkpoint',
    fault: TORN,
    file: 'protocol/failure-policy.ts',
    before: "errors: ['CheckpointTorn'],\n    retried: ['gpu'],\n    recovery: 'hold',",
    after: "errors: ['CheckpointTorn'],\n    retried: ['gpu'],\n    recovery: 'mask',",
    tests: [
      { file: HELD_TEST, test: 'an eval whose checkpoint is torn pauses' },
      {
        file: 'test/workflows/failures/held-sampling.test.ts',
        test: 'a rollout whose checkpoint is changed in the middle of it is held',
      },
    ],
  },
  {
    name: 'a policy whose files are gone is an error of no class',
    fault: TORN,
    file: 'activities/backends/embedded-backend.ts',
    before: 'return intact(dir, () => read(dir));',
    after: 'return read(dir);',
    tests: [{ file: GENERATE_TEST, test: 'a policy whose folder is gone is a torn checkpoint' }],
  },
  {
    name: 'rollouts are masked for a disk that is full',
    fault: DISK,
    file: 'protocol/failure-policy.ts',
    before: "retried: ['init', 'gpu', 'agent-run', 'reward'],\n    recovery: 'hold',",
    after: "retried: ['init', 'gpu', 'agent-run', 'reward'],\n    recovery: 'mask',",
    tests: [{ file: HELD_TEST, test: 'a run (one-step-off) whose agentRun in step-1/ cannot continue pauses' }],
  },
  {
    name: 'an update whose tries are spent ends the run',
    fault: UPDATE,
    file: 'workflows/failures/mendable.ts',
    before: "\n    retryState === 'NON_RETRYABLE_FAILURE' &&\n    !cause.details?.includes(TRIES_SPENT) &&\n   ",
    after: " retryState === 'NON_RETRYABLE_FAILURE' &&",
    tests: [
      {
        file: 'test/workflows/failures/held-work.test.ts',
        test: 'a run that is cancelled while it waits before an update ends as cancelled',
      },
    ],
  },
];
