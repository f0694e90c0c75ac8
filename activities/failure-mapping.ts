/**
 * Maps our error classes to Temporal's: the class name is the failure's type, and decides whether a retry makes sense.
 */

import { ApplicationFailure } from '@temporalio/common';
import { EndpointUnavailable, JudgeUnavailable } from './failures.ts';
import { classifyDiskError } from '../store/disk-errors.ts';
import { messageWithPlace } from '../modules/own-frame.ts';
import { withSources } from '../modules/source-places.ts';
import { FINAL_ERRORS } from '../protocol/failure-policy.ts';

/** The same input fails in the same way: never retried. */
const FINAL = new Set([...FINAL_ERRORS, 'NoValidRollouts', 'ModelUnavailable', 'PlanLost', 'OwnCodeFailed']);

/**
 * Errors in what was read: reported like any other wrong input. They are not in the failure table, since workflows
 * decide by it too, and workflows with these errors in their histories have decided otherwise.
 */
const WRONG_INPUT = new Set(['UnknownTask', 'ModulesUnknown', 'UnsupportedModel', 'ChatTemplateRefused']);

/** The longest pause between two attempts. If a server asks for a longer one, its request counts. */
const LONGEST_PAUSE_MS = 10_000;
/** The longest pause that a server may ask for, so that the sandbox of the waiting rollout is not lost. */
const LONGEST_WAIT_MS = 10 * 60_000;

function retryDelayOf(error: Error): { readonly nextRetryDelay?: number } {
  const isDown = error instanceof EndpointUnavailable || error instanceof JudgeUnavailable;
  const asked = isDown ? (error.retryAfterMs ?? 0) : 0;
  return asked > LONGEST_PAUSE_MS ? { nextRetryDelay: Math.min(asked, LONGEST_WAIT_MS) } : {};
}

/** Runs an activity's body; rethrows errors as `ApplicationFailure`s that carry their class. */
export async function withFailureMapping<T>(body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (thrown) {
    const error = classifyDiskError(thrown, 'the disk of this worker');
    if (!(error instanceof Error) || error instanceof ApplicationFailure) throw error;
    if (error.name === 'AbortError' || error.name === 'CancelledFailure') throw error;
    throw failureFrom(error);
  }
}

/**
 * Only the innermost message of a chain is shown. So a failure whose message names its place in the code has the stack
 * itself, and no cause: the cause's message would lack the place.
 */
function failureFrom(error: Error): ApplicationFailure {
  const type = WRONG_INPUT.has(error.name) ? 'UserInputError' : error.name;
  const message = messageWithPlace(error);
  const cause = message === error.message ? { cause: error } : {};
  const failure = ApplicationFailure.create({
    message: message.slice(0, 1000),
    type,
    nonRetryable: FINAL.has(type) || (error instanceof JudgeUnavailable && error.isFinal),
    ...cause,
    ...retryDelayOf(error),
  });
  if (cause.cause === undefined && error.stack !== undefined) failure.stack = withSources(error.stack);
  return failure;
}
