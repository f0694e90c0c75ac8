/** Why a rollout ended, and the classes of failures: closed unions, never free text. */

/** The ways in which the policy itself ends a rollout. Each leads to the reward stage. */
export type FinishReason =
  | 'finish-tool'
  /** A message without a call was the answer: the rollout's agent ends it there. */
  | 'answer'
  /** The environment's `step` ended the rollout. */
  | 'done'
  | 'max-turns'
  | 'context-full'
  | 'response-cut'
  /** The policy refused to answer, or its server's filter removed the answer. */
  | 'refused'
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
  | 'grader-failed'
  /** Code of the environment failed: its `start` or its `step`. */
  | 'environment-failed'
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
  /** Too many workers were lost in the same activity. */
  | 'quarantined'
  /** Its group was complete without it. */
  | 'straggler'
  /** The rollout is already recorded as failed. */
  | 'failed-before'
  | 'bad-input'
  | 'cancelled'
  | 'internal';

export interface Failure {
  readonly failure: FailureClass;
  readonly message: string;
}
