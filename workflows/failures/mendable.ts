/**
 * Failures of a run's own work that can be repaired: machines caused them, or somebody ended the work by hand. Repeated
 * after the repair, the work may succeed. Work with a wrong input would fail again.
 */

import {
  ActivityFailure,
  ApplicationFailure,
  ChildWorkflowFailure,
  CancelledFailure,
  rootCause,
  TerminatedFailure,
  TimeoutFailure,
} from '@temporalio/workflow';
import type { Failure } from '../../protocol/finish-reason.ts';
import { classOfError, FAILURES, TRIES_SPENT } from '../../protocol/failure-policy.ts';

const messageOf = (error: Error): string => (rootCause(error) ?? error.message).slice(0, 300);

const isFilesGone = ({ cause }: ActivityFailure): boolean =>
  cause instanceof ApplicationFailure && cause.type === 'PlanLost';

function ofActivity(error: ActivityFailure): Failure | undefined {
  const { cause, retryState } = error;
  const message = messageOf(error);
  if (cause instanceof TimeoutFailure) return { failure: 'timeout', message };
  if (isFilesGone(error)) return { failure: 'internal', message };
  if (!(cause instanceof ApplicationFailure)) return undefined;
  const failure = classOfError(cause.type ?? '');
  const isFinal =
    retryState === 'NON_RETRYABLE_FAILURE' &&
    !cause.details?.includes(TRIES_SPENT) &&
    FAILURES[failure].recovery !== 'hold';
  if (isFinal) return undefined;
  return FAILURES[failure].breaks ? { failure, message } : undefined;
}

/**
 * `error`: the final failure of an activity or of a child. Returns `undefined` if repeating cannot help, and for the
 * run's own cancellation.
 */
export function mendable(error: unknown): Failure | undefined {
  if (error instanceof ActivityFailure) return ofActivity(error);
  if (!(error instanceof ChildWorkflowFailure)) return undefined;
  const { cause } = error;
  if (cause instanceof CancelledFailure || cause instanceof TerminatedFailure)
    return { failure: 'cancelled', message: messageOf(error) };
  if (cause instanceof TimeoutFailure) return { failure: 'timeout', message: messageOf(error) };
  return mendable(cause);
}
