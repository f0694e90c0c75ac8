/** Why a rollout ended, and the classes of failures: closed unions, never free text. */

/** The ways in which the policy itself ends a rollout. Each leads to the reward stage. */
export type FinishReason =
  | 'finish-tool'
  /** A message without a call was the answer: the rollout's agent ends it there. */
  | 'answer'
  /** The environment's `step` ended the rollout. */
  | 'done'
  | 'max-turns'
  /** The context is full. */
  | 'context'
  | 'response-cut'
  /** It sampled as many tokens as agent.maxSampledTokens allows. */
  | 'token-budget'
  /** The policy refused to answer, or its server's filter removed the answer. */
  | 'refused'
  /** The program that is the agent ended with an exit code other than 0, or by a signal. */
  | 'program-failed'
  /** The program took longer than `agent.options.timeoutSeconds`. */
  | 'program-timeout'
  /** The rollout's time was over, and the policy itself used at least half of it. */
  | 'deadline';

/**
 * Failures that are not the policy's. `protocol/failure-policy.ts` defines how each is handled. None is a reward of 0.
 */
export type FailureClass =
  | 'sandbox-unavailable'
  | 'sandbox-impossible'
  | 'sandbox-lost'
  | 'restore-failed'
  /** A recorded answer belongs to another call. */
  | 'record-mismatch'
  | 'engine-lost'
  | 'backend-failed'
  | 'endpoint-unavailable'
  /** A judge gave no answer. */
  | 'judge-unavailable'
  /** A server that a tool or the environment uses gave no answer. */
  | 'service-unavailable'
  /** The run, the eval or a judge has used what its budget allows. */
  | 'budget-spent'
  | 'grader-failed'
  /** Code of the environment failed: its `start` or its `step`. */
  | 'environment-failed'
  /** An agent's `decide` failed, or decided what cannot be done. */
  | 'agent-failed'
  /** The code of a user's tool failed. */
  | 'tool-failed'
  /** The artifact could not be copied out of the sandbox, nor out of a control sandbox. */
  | 'collect-failed'
  /** An activity ran over its time limit on every try. */
  | 'timeout'
  /** The policy's files are truncated, changed or missing. */
  | 'checkpoint-torn'
  /** The disk was full or read-only, or the store locked, during all tries. */
  | 'store-unavailable'
  | 'store-damaged'
  | 'data-changed'
  /** The rollout's time was over, and the policy itself used less than half of it. */
  | 'deadline'
  /** A program that runs elsewhere reported no end in its time: it may have died. */
  | 'program-lost'
  /** A program gave up after its model calls had waited for a pause or an outage. */
  | 'program-starved'
  /** Too many workers were lost in the same activity. */
  | 'quarantined'
  /** Its group was complete without it. */
  | 'straggler'
  /** The rollout is already recorded as failed. */
  | 'failed-before'
  /** The task's prompt leaves no room for an answer. */
  | 'prompt-too-long'
  | 'bad-input'
  | 'cancelled'
  | 'internal';

export interface Failure {
  readonly failure: FailureClass;
  readonly message: string;
}
