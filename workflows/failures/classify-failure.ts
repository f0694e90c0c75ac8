/** From what an activity's last attempt failed with to the class of a rollout's failure. */

import { ActivityFailure, ApplicationFailure, rootCause, TimeoutFailure } from '@temporalio/common';
import { classOfError } from '../../protocol/failure-policy.ts';
import type { Failure, FailureClass } from '../../protocol/finish-reason.ts';

/** Room for a line and the file and line that it names. */
const LONGEST_MESSAGE = 500;

/** By what passed: nobody took the task, it or its worker was silent, or all its time was spent. */
function classOfTimeout({ timeoutType }: TimeoutFailure): FailureClass {
  if (timeoutType === 'SCHEDULE_TO_START') return 'sandbox-lost';
  return timeoutType === 'SCHEDULE_TO_CLOSE' ? 'deadline' : 'timeout';
}

/** By what Temporal says that a try of an activity, or its last one, ended with. */
export function classOfCause(cause: unknown): FailureClass {
  if (cause instanceof ApplicationFailure) return classOfError(cause.type ?? '');
  return cause instanceof TimeoutFailure ? classOfTimeout(cause) : 'internal';
}

/** A failure whose class is known better than by what Temporal says of it. */
export class KnownFailure extends Error {
  override readonly name = 'KnownFailure';
  readonly failure: Failure;

  constructor(failure: Failure, options: ErrorOptions) {
    super(failure.message, options);
    this.failure = failure;
  }
}

/** Whether all the time that an activity was given, with its retries, has passed. */
export function wasOutOfTime(error: unknown): error is ActivityFailure {
  return (
    error instanceof ActivityFailure &&
    error.cause instanceof TimeoutFailure &&
    error.cause.timeoutType === 'SCHEDULE_TO_CLOSE'
  );
}

/**
 * Of work that no deadline of the rollout's bounds, but the longest outage: when all that time has passed, it is that of its
 * workers. Errors: those of `work`; a `KnownFailure` of class `timeout`.
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
 * Sorts an activity's final failure by its class name, and a deadline that passed by its stage.
 * Errors: what is no activity's failure is thrown on.
 */
export function classify(error: unknown): Failure {
  if (error instanceof KnownFailure) return error.failure;
  if (!(error instanceof ActivityFailure)) throw error;
  const message = (rootCause(error) ?? error.message).slice(0, LONGEST_MESSAGE);
  return { failure: classOfCause(error.cause), message };
}
