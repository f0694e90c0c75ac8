/**
 * What is done about each class of failure, as data: activities' retries, the agent loop, the circuit breaker and
 * the documentation read this table and nothing else. No class is ever a reward.
 */

import type { FailureClass } from './finish-reason.ts';

/** Stages by the queue that their activities run on: a retry is made there. */
export type RetryPlace = 'init' | 'gpu' | 'agent-run' | 'reward';

export interface Backoff {
  /** Failures in all. */
  readonly attempts: number;
  readonly firstMs: number;
  readonly factor: number;
  readonly longestMs: number;
}

const backoff = (attempts: number): Backoff => ({ attempts, firstMs: 500, factor: 2, longestMs: 10_000 });

/** Failures that one activity throws, whatever it failed with, unless its class is final. Kept by the worker, in the store. */
export const RETRIES: Readonly<Record<RetryPlace, Backoff>> = {
  init: backoff(20),
  gpu: backoff(8),
  'agent-run': backoff(6),
  reward: backoff(5),
};

/** Workers that may end, or be silent, in one activity: an accident costs time alone, and what ends each of them is found. */
export const LOST_WORKERS = 50;

/** Detail of a failure that could be tried again, and that was the last. */
export const TRIES_SPENT = 'tries-spent';

/**
 * Seconds that anything waits for workers: an outage that ends within a week ends no run and no rollout. What waits
 * longer than it should is named long before.
 */
export const OUTAGE_SECONDS = 7 * 86_400;

/** Of one attempt: lost sandboxes whose place another one takes; of one rollout: attempts in all. */
export const BUDGET = { restores: 3, attempts: 3 } as const;

/**
 * What follows when an activity's retries are spent. `resume`: a fresh sandbox, brought to where the rollout was.
 * `restart`: the next attempt, from the first turn. `mask`: the rollout fails, without a reward. Where a budget is
 * spent, `resume` becomes `restart`, and `restart` becomes `mask`. `hold`: nothing of its run can go on, or it is not the
 * rollout's fault alone: it stands still with its sandbox, its run pauses, and the same is done again when that is resumed.
 */
export type Recovery = 'resume' | 'restart' | 'mask' | 'hold';

export interface FailurePolicy {
  /** How it is known. */
  readonly detected: string;
  /** Names of the errors that say so: `ApplicationFailure.type` over Temporal. */
  readonly errors: readonly string[];
  /** Where activities are tried again; empty: the class is final, and trying the same again is of no use. */
  readonly retried: readonly RetryPlace[];
  readonly recovery: Recovery;
  /** Whether it says something of the machines, so that a run which meets it again and again is paused. */
  readonly breaks: boolean;
  /** What a user can do about it. */
  readonly remedy: string;
}

export const FAILURES: Readonly<Record<FailureClass, FailurePolicy>> = {
  'sandbox-unavailable': {
    detected: 'a sandbox could not be made or reached',
    errors: ['SandboxUnavailable'],
    retried: ['init', 'agent-run'],
    recovery: 'mask',
    breaks: true,
    remedy: 'run `longhaul doctor`; see the log of the init worker, and room on the disk',
  },
  'sandbox-impossible': {
    detected: 'a task or a setting asks for a sandbox that cannot be had here',
    errors: ['SandboxImpossible'],
    retried: [],
    recovery: 'mask',
    breaks: true,
    remedy: 'change the setting that the message names (LONGHAUL_SANDBOX, image, runtime, limits)',
  },
  'sandbox-lost': {
    detected: "nobody listens on the sandbox's socket, or nobody has served its host's queue for 35 minutes",
    errors: ['SandboxLost'],
    retried: [],
    recovery: 'resume',
    breaks: true,
    remedy: 'look for a host or a daemon that died, or for memory that ran out (`dmesg`)',
  },
  'restore-failed': {
    detected: 'a fresh sandbox, given the recorded tool calls again, has another digest than the lost one had',
    errors: ['RestoreFailed'],
    retried: [],
    recovery: 'restart',
    breaks: false,
    remedy:
      'nothing: the attempt began again. Tools that answer otherwise each time (clocks, random names) cannot be replayed',
  },
  'record-mismatch': {
    detected: 'an answer on record is that of another call than the one that its turn makes',
    errors: ['AnswerMismatch'],
    retried: [],
    recovery: 'restart',
    breaks: true,
    remedy:
      'the attempt began again. Records of two runs under one name, or a store of which a part was lost or brought back: see which writes there',
  },
  'engine-lost': {
    detected: "the engine's process ended or does not answer",
    errors: ['EngineLost'],
    retried: ['gpu'],
    recovery: 'mask',
    breaks: true,
    remedy: 'see the log of the gpu worker; memory may have run out',
  },
  'endpoint-unavailable': {
    detected: "an endpoint gave no answer within a call's own tries",
    errors: ['EndpointUnavailable'],
    retried: ['gpu'],
    recovery: 'mask',
    breaks: true,
    remedy: 'see whether the server runs, and its limits on requests (docs/endpoints.md)',
  },
  'grader-failed': {
    detected: 'the grader, or the sandbox it ran in, failed; each try has a fresh one',
    errors: ['GraderFailed'],
    retried: ['reward'],
    recovery: 'mask',
    breaks: true,
    remedy: 'see the log of the reward worker; `longhaul rollouts RUN` has the reason',
  },
  'collect-failed': {
    detected:
      'what is graded could not be taken out of its sandbox, and neither could that of a control, which no policy has touched',
    errors: ['CollectFailed'],
    retried: ['agent-run'],
    recovery: 'mask',
    breaks: true,
    remedy: 'see the log of the agent-run worker, and whether its machine is overloaded or out of memory',
  },
  'checkpoint-torn': {
    detected: 'a policy’s files are not those that were written: cut short, changed, or gone',
    errors: ['CheckpointTorn'],
    retried: ['gpu'],
    recovery: 'hold',
    breaks: true,
    remedy: 'bring the checkpoint back from a copy, or begin from an earlier one: the message names it',
  },
  'store-unavailable': {
    detected: 'the disk was full or read-only, or the store locked by another program, for longer than all tries',
    errors: ['StoreFull', 'StoreReadOnly', 'StoreBusy'],
    retried: ['init', 'gpu', 'agent-run', 'reward'],
    recovery: 'hold',
    breaks: true,
    remedy: 'free room on the disk that the message names, or mount it for writing again',
  },
  'store-damaged': {
    detected: 'a record of the store is missing, or is not what was written',
    errors: ['StoreCorrupt'],
    retried: [],
    recovery: 'hold',
    breaks: true,
    remedy:
      'stop the stack and bring the store back from a copy, or start a run of another name; `longhaul doctor --store` lists what is damaged',
  },
  'module-changed': {
    detected:
      "a run's module (`algorithm.module`) was changed and no copy of it is left, or the workers have loaded another one of that path",
    errors: ['ModuleChanged'],
    retried: [],
    recovery: 'hold',
    breaks: true,
    remedy: 'put the file back, or restart the stack, as the message says',
  },
  timeout: {
    detected: 'an activity took longer than its limit every time that it was tried, or no worker served it for a week',
    errors: ['TookTooLong'],
    retried: ['init', 'gpu', 'agent-run', 'reward'],
    recovery: 'mask',
    breaks: true,
    remedy: 'see which worker hangs: `longhaul ps`, and its log',
  },
  quarantined: {
    detected: `${LOST_WORKERS} workers ended, stood still or were silent for 15 s in the same activity`,
    errors: ['WorkersLost'],
    retried: [],
    recovery: 'hold',
    breaks: true,
    remedy: 'see what ends the worker: `longhaul ps`, its log, and memory that ran out (`dmesg`)',
  },
  deadline: {
    detected:
      'the rollout spent more than agent.deadlineSeconds on its turns, and less than half of it by itself (with agent.atDeadline: mask, however)',
    errors: ['DeadlinePassed'],
    retried: [],
    recovery: 'mask',
    breaks: false,
    remedy: 'give it more time, fewer turns or a shorter limit for tools',
  },
  straggler: {
    detected: 'its group was complete without it (batch.stragglers)',
    errors: [],
    retried: [],
    recovery: 'mask',
    breaks: false,
    remedy: 'nothing: it was asked for; wait for more members, or for longer',
  },
  'failed-before': {
    detected: 'the rollout is on record as failed: it was given up, or failed in an earlier start of its batch',
    errors: ['FailedBefore'],
    retried: [],
    recovery: 'mask',
    breaks: false,
    remedy: 'nothing: its group is graded without it. A run of another name begins it anew',
  },
  'bad-input': {
    detected: 'an input cannot be used',
    errors: [
      'UserInputError',
      'InvalidRequest',
      'BadCacheBudget',
      'UnknownName',
      'LossRefused',
      'NoReference',
      'NoCredit',
      'NoValues',
      'TooFewTokens',
      'TrainingDiverged',
    ],
    retried: [],
    recovery: 'mask',
    breaks: false,
    remedy: 'change the setting or the field that the message names',
  },
  cancelled: {
    detected: 'somebody cancelled the rollout',
    errors: [],
    retried: [],
    recovery: 'mask',
    breaks: false,
    remedy: 'nothing: it was asked for',
  },
  internal: {
    detected: 'any other error',
    errors: [],
    retried: ['init', 'gpu', 'agent-run', 'reward'],
    recovery: 'mask',
    breaks: true,
    remedy: "the message and the worker's log say what failed; report it as a bug",
  },
};

const entries = Object.entries(FAILURES) as ReadonlyArray<[FailureClass, FailurePolicy]>;

const CLASS_OF: ReadonlyMap<string, FailureClass> = new Map(
  entries.flatMap(([name, { errors }]) => errors.map((error): [string, FailureClass] => [error, name])),
);

/** The class that an error of this name belongs to. */
export function classOfError(name: string): FailureClass {
  return CLASS_OF.get(name) ?? 'internal';
}

/** Names of errors that no retry of the same call can cure. */
export const FINAL_ERRORS: readonly string[] = entries.flatMap(([, { errors, retried }]) =>
  retried.length === 0 ? errors : [],
);
