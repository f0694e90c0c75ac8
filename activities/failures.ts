/** The failures of activities that no other folder has: each is a class of its own, which the failure table names. */

import type { FailureClass } from '../protocol/finish-reason.ts';

/** No rollout of a step was graded: a run that continued would train on nothing, and report a trained step. */
export class NoValidRollouts extends Error {
  override readonly name = 'NoValidRollouts';
  readonly step: number;
  /** How many rollouts failed, by reason. */
  readonly masked: Readonly<Record<string, number>>;

  constructor(step: number, masked: Readonly<Record<string, number>>) {
    const reasons = Object.entries(masked).map(([reason, n]) => `${n} ${reason}`);
    super(
      `No rollout of step ${step} was graded (${reasons.join(', ')}); fix what failed, then start a run with ` +
        'another name',
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

  constructor(judge: string, message: string, details: { readonly retryAfterMs?: number; readonly isFinal?: boolean }) {
    super(`judge ${judge} gave no answer: ${message}`);
    this.retryAfterMs = details.retryAfterMs;
    this.isFinal = details.isFinal ?? false;
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
