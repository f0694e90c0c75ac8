/**
 * How each class of failure is handled, as data: retries of activities, the agent loop, the circuit breaker and the
 * documentation read only this table. No class gives a reward.
 */

import type { FailureClass } from './finish-reason.ts';

/** The stages, by the queue of their activities: retries happen there. */
export type RetryPlace = 'init' | 'gpu' | 'agent-run' | 'reward';

export interface Backoff {
  /** Total number of tries. */
  readonly attempts: number;
  readonly firstMs: number;
  readonly factor: number;
  readonly longestMs: number;
}

const backoff = (attempts: number): Backoff => ({ attempts, firstMs: 500, factor: 2, longestMs: 10_000 });

/**
 * How often one activity may fail, with any class that is not final. The worker counts the failures, in the store.
 */
export const RETRIES: Readonly<Record<RetryPlace, Backoff>> = {
  init: backoff(20),
  gpu: backoff(8),
  'agent-run': backoff(6),
  reward: backoff(5),
};

/** Workers that one activity may lose: an accident costs only time, and an activity that kills its workers is found. */
export const LOST_WORKERS = 50;

/** Detail of the last failure of an activity: its class is retried, but no tries remain. */
export const TRIES_SPENT = 'tries-spent';

/**
 * Seconds that anything waits for workers: an outage of less than a week ends no run and no rollout. The watchdog
 * reports long waits much earlier.
 */
export const OUTAGE_SECONDS = 7 * 86_400;

/** `restores`: lost sandboxes that are replaced in one attempt. `attempts`: attempts of one rollout. */
export const BUDGET = { restores: 3, attempts: 3 } as const;

/**
 * What happens when an activity has no tries left. `resume`: a fresh sandbox gets the state of the lost one, and the
 * rollout continues. `restart`: the next attempt starts, from the first turn. `mask`: the rollout fails without a
 * reward. If a budget is spent, `resume` becomes `restart`, and `restart` becomes `mask`. `hold`: the cause is outside
 * the rollout, or affects its whole run. The rollout waits with its sandbox, its run pauses, and the activity is
 * retried when the run is resumed.
 */
export type Recovery = 'resume' | 'restart' | 'mask' | 'hold';

export interface FailurePolicy {
  /** How the failure is detected. */
  readonly detected: string;
  /** Names of the errors of this class: `ApplicationFailure.type` in Temporal. */
  readonly errors: readonly string[];
  /** Where activities are retried. Empty: the class is final, since a retry would fail again. */
  readonly retried: readonly RetryPlace[];
  readonly recovery: Recovery;
  /** True if it holds the rollout whatever the input's `holds` says: it is never masked. */
  readonly alwaysHolds?: true;
  /** True if it indicates a problem of the machines: a run is paused if it happens again and again. */
  readonly breaks: boolean;
  /** What a user can do about it. */
  readonly remedy: string;
}

/** `resume` after an edit of a module would fail in the same way. */
const KEPT = 'a run keeps its modules: a changed one needs a run with another name';

export const FAILURES: Readonly<Record<FailureClass, FailurePolicy>> = {
  'sandbox-unavailable': {
    detected: 'a sandbox could not be made or reached',
    errors: ['SandboxUnavailable'],
    retried: ['init', 'agent-run'],
    recovery: 'mask',
    breaks: true,
    remedy: 'run `npx longhaul doctor`; see `npx longhaul logs init` and the free space on the disk',
  },
  'sandbox-impossible': {
    detected: 'a task or a setting requires a sandbox that this machine cannot provide',
    errors: ['SandboxImpossible'],
    retried: [],
    recovery: 'mask',
    breaks: true,
    remedy: 'change the setting that the message names (LONGHAUL_SANDBOX, image, runtime, limits)',
  },
  'sandbox-lost': {
    detected: "nothing listens on the sandbox's socket, or no worker has polled its host's queue for 35 minutes",
    errors: ['SandboxLost'],
    retried: [],
    recovery: 'resume',
    breaks: true,
    remedy: 'check whether a host or a daemon died, or memory ran out (`dmesg`)',
  },
  'restore-failed': {
    detected:
      "the recorded tool calls, repeated in a fresh sandbox, gave another digest than the lost one's; " +
      'an environment in Python, made again, gave other replies',
    errors: ['RestoreFailed', 'PythonReplayDiffers'],
    retried: [],
    recovery: 'restart',
    breaks: false,
    remedy:
      'none required: the next attempt has started. Tools that answer differently each time (clocks, ' +
      'random names) cannot be replayed',
  },
  'record-mismatch': {
    detected: "a recorded answer belongs to another call than its turn's",
    errors: ['AnswerMismatch'],
    retried: [],
    recovery: 'restart',
    breaks: true,
    remedy:
      'the next attempt has started. Two runs may write under one name, or a part of the store was lost or ' +
      'restored from a copy: check which programs use this store',
  },
  'engine-lost': {
    detected: "the engine's process ended or does not answer",
    errors: ['EngineLost'],
    retried: ['gpu'],
    recovery: 'mask',
    breaks: true,
    remedy: 'see `npx longhaul logs gpu`; memory may have run out (`dmesg`)',
  },
  'backend-failed': {
    detected:
      "a function of the policy's backend threw, did not return in its time, or returned what cannot be true " +
      '(docs/backends.md)',
    errors: ['BackendFailed', 'BackendTimedOut', 'BackendAnswerWrong'],
    retried: ['gpu'],
    recovery: 'hold',
    breaks: true,
    remedy: 'fix what the message names (a changed module needs a run with another name)',
  },
  'endpoint-unavailable': {
    detected: 'an endpoint gave no answer to any request of a call',
    errors: ['EndpointUnavailable'],
    retried: ['gpu'],
    recovery: 'mask',
    breaks: true,
    remedy: 'check whether the server runs, and its limits on requests (docs/endpoints.md)',
  },
  'judge-unavailable': {
    detected: 'a judge that the environment, the grader or a tool asked gave no answer, or refuses its key or model',
    errors: ['JudgeUnavailable'],
    retried: ['init', 'agent-run', 'reward'],
    recovery: 'hold',
    alwaysHolds: true,
    breaks: true,
    remedy: "check whether the judge's server runs, and its key and limits (docs/judges.md)",
  },
  'service-unavailable': {
    detected:
      'a server that a tool or the environment uses (retrieval, search, pages, MCP) gave no answer, or refuses its key',
    errors: ['ServiceUnavailable'],
    retried: ['init', 'agent-run', 'reward'],
    recovery: 'hold',
    breaks: true,
    remedy: "check whether the server that the message names runs, and the worker's key for it (docs/tools.md)",
  },
  'budget-spent': {
    detected: 'the run, the eval or a judge has used the tokens, the money or the time of its budget',
    errors: ['BudgetSpent'],
    retried: [],
    recovery: 'hold',
    alwaysHolds: true,
    breaks: true,
    remedy: 'raise the budget as the message says (`npx longhaul set RUN budget.tokens=N`)',
  },
  'grader-failed': {
    detected: 'the grader or its sandbox failed; each try has a fresh sandbox',
    errors: ['GraderFailed'],
    retried: ['reward'],
    recovery: 'mask',
    breaks: true,
    remedy: `see \`npx longhaul logs reward\`; \`npx longhaul rollouts RUN\` shows the reason (${KEPT})`,
  },
  'environment-failed': {
    detected:
      "the environment's start or step threw, or returned what cannot be used, or the run's modules did not " +
      'load, or an MCP server cannot be used',
    errors: [
      'EnvironmentFailed',
      'ModulesFailed',
      'QuestionRefused',
      'PythonFailed',
      'PythonTimedOut',
      'ReplFailed',
      'McpFailed',
    ],
    retried: ['init', 'agent-run'],
    recovery: 'mask',
    breaks: true,
    remedy: `fix the environment at the file and line that the message names (${KEPT})`,
  },
  'agent-failed': {
    detected: "an agent's decide threw, or returned a command that cannot be followed",
    errors: ['AgentFailed'],
    // It is pure: the same turn is decided in the same way.
    retried: [],
    recovery: 'mask',
    breaks: true,
    remedy: `fix the type of agent that the message names (${KEPT})`,
  },
  'tool-failed': {
    detected: "a tool's own code threw",
    errors: ['ToolFailed'],
    retried: ['init', 'agent-run'],
    recovery: 'mask',
    breaks: true,
    remedy: `fix the tool at the file and line that the message names (${KEPT})`,
  },
  'collect-failed': {
    detected:
      "the artifact could not be copied out of the rollout's sandbox, nor out of a control sandbox that no " +
      'policy has used',
    errors: ['CollectFailed'],
    retried: ['agent-run'],
    recovery: 'mask',
    breaks: true,
    remedy: 'see `npx longhaul logs agent-run`; check whether its machine is overloaded or out of memory',
  },
  'checkpoint-torn': {
    detected: "a policy's files are truncated, changed or missing",
    errors: ['CheckpointTorn'],
    retried: ['gpu'],
    recovery: 'hold',
    breaks: true,
    remedy: 'restore the checkpoint that the message names from a copy, or start from an earlier one',
  },
  'store-unavailable': {
    detected: 'the disk was full or read-only, or another program locked the store, during all tries',
    errors: ['StoreFull', 'StoreReadOnly', 'StoreBusy'],
    retried: ['init', 'gpu', 'agent-run', 'reward'],
    recovery: 'hold',
    breaks: true,
    remedy: 'free space on the disk that the message names, or mount it for writing',
  },
  'store-damaged': {
    detected: 'a record of the store is missing or damaged',
    errors: ['StoreCorrupt'],
    retried: [],
    recovery: 'hold',
    breaks: true,
    remedy:
      'stop the stack and restore the store from a copy, or start a run with another name; ' +
      '`npx longhaul doctor --store` lists the damaged records',
  },
  'data-changed': {
    detected: 'the records of a dataset are not those with which the run or eval started, or a hub does not give them',
    errors: ['DataChanged', 'DataUnavailable'],
    retried: [],
    recovery: 'hold',
    breaks: true,
    remedy: 'restore the files that the message names, or the way to the hub; or start a run with another name',
  },
  timeout: {
    detected: 'an activity ran over its time limit on every try, or no worker polled its queue for a week',
    errors: ['TookTooLong'],
    retried: ['init', 'gpu', 'agent-run', 'reward'],
    recovery: 'mask',
    breaks: true,
    remedy:
      'find the worker that hangs: `npx longhaul ps`, then `npx longhaul logs ROLE`. ' +
      'A queue `gpu:KIND` needs an engine of that kind, or LONGHAUL_MIXED_ENGINES=1',
  },
  quarantined: {
    detected: `${LOST_WORKERS} workers ended, froze or were silent for 15 s in the same activity`,
    errors: ['WorkersLost'],
    retried: [],
    recovery: 'hold',
    breaks: true,
    remedy: 'find what ends the worker: `npx longhaul ps`, `npx longhaul logs ROLE`, and memory that ran out (`dmesg`)',
  },
  deadline: {
    detected:
      "a rollout's turns took longer than agent.deadlineSeconds, and the policy itself used less than half of " +
      'that time (with agent.atDeadline: mask, any share)',
    errors: ['DeadlinePassed'],
    retried: [],
    recovery: 'mask',
    breaks: false,
    remedy: 'raise agent.deadlineSeconds, or lower agent.maxTurns or agent.toolTimeoutSeconds',
  },
  'program-lost': {
    detected: 'a program elsewhere that is the agent reported no end within agent.options.timeoutSeconds',
    errors: [],
    retried: [],
    recovery: 'mask',
    breaks: true,
    remedy: 'check whether the program runs, or raise agent.options.timeoutSeconds',
  },
  'program-starved': {
    detected:
      'a program that is the agent ended without an answer after its model calls had waited more than 60 s for ' +
      'a pause or an outage',
    errors: [],
    retried: [],
    recovery: 'restart',
    breaks: false,
    remedy: 'none required: the next attempt has started',
  },
  straggler: {
    detected: 'its group was complete without it (batch.stragglers)',
    errors: [],
    retried: [],
    recovery: 'mask',
    breaks: false,
    remedy:
      'none required: batch.stragglers asks for it. To keep more rollouts, lower completeGroupWithout or raise ' +
      'deadlineSeconds',
  },
  'failed-before': {
    detected: 'the rollout is recorded as failed: it was given up, or it failed in an earlier start of its batch',
    errors: ['FailedBefore'],
    retried: [],
    recovery: 'mask',
    breaks: false,
    remedy: 'none required: its group is graded without it. A run with another name starts it again',
  },
  'prompt-too-long': {
    detected: "a task's prompt fills the context before the first turn",
    errors: ['PromptTooLong', 'ContextTooLong'],
    retried: [],
    recovery: 'mask',
    breaks: false,
    remedy:
      "shorten the task's prompt, or raise agent.maxContextTokens and policy.maxContextTokens, " +
      "or the memory of the engine's cache (`npx longhaul model DIR` shows what fits)",
  },
  'bad-input': {
    detected: 'an input is invalid',
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
    remedy: 'none required',
  },
  internal: {
    detected: 'any other error',
    errors: [],
    retried: ['init', 'gpu', 'agent-run', 'reward'],
    recovery: 'mask',
    breaks: true,
    remedy: 'see the message and `npx longhaul logs ROLE`; report it as a bug',
  },
};

const entries = Object.entries(FAILURES) as ReadonlyArray<[FailureClass, FailurePolicy]>;

const CLASS_OF: ReadonlyMap<string, FailureClass> = new Map(
  entries.flatMap(([name, { errors }]) => errors.map((error): [string, FailureClass] => [error, name])),
);

/** The class of an error with this name. */
export function classOfError(name: string): FailureClass {
  return CLASS_OF.get(name) ?? 'internal';
}

/** Names of errors that a retry of the same call cannot fix. */
export const FINAL_ERRORS: readonly string[] = entries.flatMap(([, { errors, retried }]) =>
  retried.length === 0 ? errors : [],
);
