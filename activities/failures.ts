/** From our error classes to Temporal's: the class name is the failure's type, and decides whether a retry makes sense. */

import { ApplicationFailure } from '@temporalio/common';
import type { FailureClass } from '../protocol/finish-reason.ts';
import { classifyDiskError } from '../store/disk-errors.ts';
import { messageWithPlace } from '../modules/own-frame.ts';
import { FINAL_ERRORS } from '../protocol/failure-policy.ts';

/** The same input fails the same way: told at once, never retried. */
const FINAL = new Set([...FINAL_ERRORS, 'NoValidRollouts', 'ModelUnavailable', 'PlanLost', 'OwnCodeFailed']);

/**
 * Of what was read, not of how: told as any other wrong input is. Not names of the table, by which workflows decide too:
 * histories that have them were decided otherwise.
 */
const WRONG_INPUT = new Set(['UnknownTask', 'UnsupportedModel', 'ChatTemplateRefused']);

/** Beyond the longest pause between two attempts, a server's own word counts, */
const LONGEST_PAUSE_MS = 10_000;
/** but not for so long that the sandbox of the rollout that waits is gone. */
const LONGEST_WAIT_MS = 10 * 60_000;

function retryDelayOf(error: Error): { readonly nextRetryDelay?: number } {
  const asked = error instanceof EndpointUnavailable ? (error.retryAfterMs ?? 0) : 0;
  return asked > LONGEST_PAUSE_MS ? { nextRetryDelay: Math.min(asked, LONGEST_WAIT_MS) } : {};
}

/** Runs an activity's body; errors leave it as `ApplicationFailure`s that carry their class. */
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
 * The innermost message of a chain is what is shown: where the message was given its place, the stack stands here and
 * the same message without it does not follow.
 */
function failureFrom(error: Error): ApplicationFailure {
  const type = WRONG_INPUT.has(error.name) ? 'UserInputError' : error.name;
  const message = messageWithPlace(error);
  const cause = message === error.message ? { cause: error } : {};
  const failure = ApplicationFailure.create({
    message: message.slice(0, 1000),
    type,
    nonRetryable: FINAL.has(type),
    ...cause,
    ...retryDelayOf(error),
  });
  if (cause.cause === undefined && error.stack !== undefined) failure.stack = error.stack;
  return failure;
}

/** A whole step without one graded rollout: a run that went on would train on nothing and say that it had. */
export class NoValidRollouts extends Error {
  override readonly name = 'NoValidRollouts';
  readonly step: number;
  /** How many rollouts failed, by reason. */
  readonly masked: Readonly<Record<string, number>>;

  constructor(step: number, masked: Readonly<Record<string, number>>) {
    const reasons = Object.entries(masked).map(([reason, n]) => `${n} ${reason}`);
    super(
      `None of the rollouts of step ${step} was graded (${reasons.join(', ')}); mend what failed, then start a run of another name`,
    );
    this.step = step;
    this.masked = masked;
  }
}

/** A fresh sandbox could not be brought to where the lost one was: the attempt begins again. */
export class RestoreFailed extends Error {
  override readonly name = 'RestoreFailed';
}

/** A rollout that was given up, or failed in an earlier start of its batch, came to a verdict after all: it stays as it was counted. */
export class FailedBefore extends Error {
  override readonly name = 'FailedBefore';
  readonly rollout: string;
  readonly failure: FailureClass;

  constructor(rollout: string, failure: FailureClass) {
    super(`${rollout} is on record as failed (${failure}): a verdict that comes later changes nothing`);
    this.rollout = rollout;
    this.failure = failure;
  }
}

/** What is on record under a call's name answers another call: none of it is used. */
export class AnswerMismatch extends Error {
  override readonly name = 'AnswerMismatch';
  readonly key: string;

  constructor(key: string, answered: string, asked: string) {
    super(`${key} answers another call (of ${answered}) than the one that its turn makes (of ${asked})`);
    this.key = key;
  }
}

/** An endpoint that gave nothing within an attempt's tries; `retryAfterMs` is how long it asked to be left alone. */
export class EndpointUnavailable extends Error {
  override readonly name = 'EndpointUnavailable';
  readonly retryAfterMs: number | undefined;

  constructor(message: string, retryAfterMs: number | undefined) {
    super(message);
    this.retryAfterMs = retryAfterMs;
  }
}

/** A run's module is not there any more as the run began with it. */
export class ModuleChanged extends Error {
  override readonly name = 'ModuleChanged';
}
