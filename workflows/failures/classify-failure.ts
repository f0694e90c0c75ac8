/** Maps an activity's final failure to the class of a rollout's failure. */

import { ActivityFailure, ApplicationFailure, rootCause, TimeoutFailure } from '@temporalio/common';
import { classOfError } from '../../protocol/failure-policy.ts';
import type { Failure, FailureClass } from '../../protocol/finish-reason.ts';

/** In characters: enough for a line of text with the file and the line number that it names. */
const LONGEST_MESSAGE = 500;

/** By the kind of timeout: no worker took the task, the attempt or its worker was silent, or all its time was used. */
function classOfTimeout({ timeoutType }: TimeoutFailure): FailureClass {
  if (timeoutType === 'SCHEDULE_TO_START') return 'sandbox-lost';
  return timeoutType === 'SCHEDULE_TO_CLOSE' ? 'deadline' : 'timeout';
}

/** The class of a cause that Temporal reports for an activity's attempt, or for its last one. */
export function classOfCause(cause: unknown): FailureClass {
  if (cause instanceof ApplicationFailure) return classOfError(cause.type ?? '');
  return cause instanceof TimeoutFailure ? classOfTimeout(cause) : 'internal';
}

/** A failure whose class the workflow knows better than Temporal's report. */
export class KnownFailure extends Error {
  override readonly name = 'KnownFailure';
  readonly failure: Failure;

  constructor(failure: Failure, options: ErrorOptions) {
    super(failure.message, options);
    this.failure = failure;
  }
}

/** True if all the time that an activity had, with its retries, has passed. */
export function wasOutOfTime(error: unknown): error is ActivityFailure {
  return (
    error instanceof ActivityFailure &&
    error.cause instanceof TimeoutFailure &&
    error.cause.timeoutType === 'SCHEDULE_TO_CLOSE'
  );
}

/**
 * For work that is bounded by the longest outage, not by the rollout's deadline: if all that time passes, its workers
 * are to blame, not the rollout. Errors: those of `work`; a `KnownFailure` of class `timeout`.
 */
export async function withinOutage<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!wasOutOfTime(error)) throw error;
    throw new KnownFailure(
      { failure: 'timeout', message: (rootCause(error) ?? error.message).slice(0, LONGEST_MESSAGE) },
      { cause: error },
    );
  }
}

/**
 * Classifies an activity's final failure by its error class, and a timeout by its kind.
 * Errors: an error that is not an activity's failure is rethrown.
 */
export function classify(error: unknown): Failure {
  if (error instanceof KnownFailure) return error.failure;
  if (!(error instanceof ActivityFailure)) throw error;
  const message = (rootCause(error) ?? error.message).slice(0, LONGEST_MESSAGE);
  return { failure: classOfCause(error.cause), message };
}
