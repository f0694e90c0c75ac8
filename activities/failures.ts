/**
 * Maps our error classes to Temporal's: the class name is the failure's type, and decides whether a retry makes sense.
 */

import { ApplicationFailure } from '@temporalio/common';
import type { FailureClass } from '../protocol/finish-reason.ts';
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

/** No rollout of a step was graded: a run that continued would train on nothing, and report a trained step. */
export class NoValidRollouts extends Error {
  override readonly name = 'NoValidRollouts';
  readonly step: number;
  /** How many rollouts failed, by reason. */
  readonly masked: Readonly<Record<string, number>>;

  constructor(step: number, masked: Readonly<Record<string, number>>) {
    const reasons = Object.entries(masked).map(([reason, n]) => `${n} ${reason}`);
    super(
      `No rollout of step ${step} was graded (${reasons.join(', ')}); fix what failed, then start a run with another name`,
    );
    this.step = step;
    this.masked = masked;
  }
}

/** A fresh sandbox could not be brought to the state of the lost one: the attempt starts again. */
export class RestoreFailed extends Error {
  override readonly name = 'RestoreFailed';
}

/**
 * A verdict arrived for a rollout that was given up, or that failed in an earlier start of its batch: it still counts
 * as failed.
 */
export class FailedBefore extends Error {
  override readonly name = 'FailedBefore';
  readonly rollout: string;
  readonly failure: FailureClass;

  constructor(rollout: string, failure: FailureClass) {
    super(`${rollout} is recorded as failed (${failure}): a later verdict changes nothing`);
    this.rollout = rollout;
    this.failure = failure;
  }
}

/** The record under a call's key answers another call: it is not used. */
export class AnswerMismatch extends Error {
  override readonly name = 'AnswerMismatch';
  readonly key: string;

  constructor(key: string, answered: string, asked: string) {
    super(`${key} answers another call (of ${answered}) than its turn makes (of ${asked})`);
    this.key = key;
  }
}

/** An endpoint gave no answer within an attempt's requests; `retryAfterMs` is how long it asked to wait. */
export class EndpointUnavailable extends Error {
  override readonly name = 'EndpointUnavailable';
  readonly retryAfterMs: number | undefined;

  constructor(message: string, retryAfterMs: number | undefined) {
    super(message);
    this.retryAfterMs = retryAfterMs;
  }
}

/** A task's prompt leaves no room for an answer: the task is at fault, and no policy can answer it. */
export class PromptTooLong extends Error {
  override readonly name = 'PromptTooLong';
  readonly task: string;
  /** Of the prompt; absent: a server refused it and did not count. */
  readonly tokens: number | undefined;

  constructor(task: string, tokens: number | undefined, limit: number | undefined, said = '') {
    const length = tokens === undefined ? 'is longer than the context' : `has ${tokens} tokens`;
    const room = limit === undefined ? '' : `, and the context ${limit}`;
    super(`the prompt of ${task} ${length}${room}: there is no room for an answer${said === '' ? '' : ` (${said})`}`);
    this.task = task;
    this.tokens = tokens;
  }
}

/** What an environment's own code throws in `start` or `step`, or what it returns and cannot be used. */
export class EnvironmentFailed extends Error {
  override readonly name = 'EnvironmentFailed';
}

/** What the code of a user's tool throws. */
export class ToolFailed extends Error {
  override readonly name = 'ToolFailed';
}

/** A judge gave no answer; `retryAfterMs` is how long its server asked to wait. */
export class JudgeUnavailable extends Error {
  override readonly name = 'JudgeUnavailable';
  readonly retryAfterMs: number | undefined;
  /** True if a retry fails alike, until somebody corrects a key or a setting. */
  readonly isFinal: boolean;

  constructor(judge: string, message: string, told: { readonly retryAfterMs?: number; readonly isFinal?: boolean }) {
    super(`judge ${judge} gave no answer: ${message}`);
    this.retryAfterMs = told.retryAfterMs;
    this.isFinal = told.isFinal ?? false;
  }
}

/** A judge's server refuses this question, such as one that is too long. The asking code may catch it. */
export class QuestionRefused extends Error {
  override readonly name = 'QuestionRefused';
}

/** A budget allows no further model call. */
export class BudgetSpent extends Error {
  override readonly name = 'BudgetSpent';
}
