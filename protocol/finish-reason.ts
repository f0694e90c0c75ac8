/** Why a rollout ended, and what went wrong where something did: closed unions, never strings made on the spot. */

/** The policy's own endings: each leads to the reward stage. */
export type FinishReason =
  | 'finish-tool'
  | 'max-turns'
  | 'context-full'
  | 'response-cut'
  /** The policy would not answer, or its server's filter took the answer away. */
  | 'refused'
  /** Its time was over, and most of it the policy's own doing. */
  | 'deadline';

/** What went wrong beside the policy; `protocol/failure-policy.ts` says what is done about each. Never a reward of 0. */
export type FailureClass =
  | 'sandbox-unavailable'
  | 'sandbox-impossible'
  | 'sandbox-lost'
  | 'restore-failed'
  /** An answer on record is another call's. */
  | 'record-mismatch'
  | 'engine-lost'
  | 'endpoint-unavailable'
  | 'grader-failed'
  /** Nothing to grade could be taken out, nor of a control. */
  | 'collect-failed'
  /** An activity's, on every try. */
  | 'timeout'
  /** The policy's files are not what was written. */
  | 'checkpoint-torn'
  /** The disk was full, read-only or damaged for longer than all tries. */
  | 'store-unavailable'
  | 'store-damaged'
  | 'module-changed'
  /** The rollout's own, spent on what is not the policy's doing. */
  | 'deadline'
  /** Too many workers ended while they did the same thing for it. */
  | 'quarantined'
  /** Its group was complete without it. */
  | 'straggler'
  /** It is on record as failed already. */
  | 'failed-before'
  | 'bad-input'
  | 'cancelled'
  | 'internal';

export interface Failure {
  readonly failure: FailureClass;
  readonly message: string;
}
