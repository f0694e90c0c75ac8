/**
 * What of a run's own work failed because of machines, or of somebody who ended it by hand: asked for again when that is
 * mended, it may succeed. What was asked wrongly fails again.
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

/** `error` is what an activity, after all its tries, or a child ended with; `undefined`: it is for good, or it is the run's own cancellation. */
export function mendable(error: unknown): Failure | undefined {
  if (error instanceof ActivityFailure) return ofActivity(error);
  if (!(error instanceof ChildWorkflowFailure)) return undefined;
  const { cause } = error;
  if (cause instanceof CancelledFailure || cause instanceof TerminatedFailure)
    return { failure: 'cancelled', message: messageOf(error) };
  if (cause instanceof TimeoutFailure) return { failure: 'timeout', message: messageOf(error) };
  return mendable(cause);
}
