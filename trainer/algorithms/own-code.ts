/**
 * The user's own code in an update. Its errors are marked as such, since neither a retry nor another machine helps.
 */

import { messageWithPlace } from '../../modules/own-frame.ts';
import { LossRefused } from './losses/loss.ts';

/** The user's own loss or advantage estimator threw, or returned a wrong number of values. */
export class OwnCodeFailed extends Error {
  override readonly name = 'OwnCodeFailed';
}

/** What is wrong if `given` does not have `count` numbers; else `undefined`. */
export function miscounted(name: string, given: ArrayLike<number> | undefined, count: number): string | undefined {
  return given?.length === count ? undefined : `${given?.length ?? 'no'} ${name} for ${count}`;
}

/**
 * `part` with a `method` whose errors and answers are checked. `wrong` returns what is wrong with an answer: missing
 * numbers would be read as zeros, or shift the numbers after them. Errors of the method: `LossRefused`,
 * `OwnCodeFailed`.
 */
export function guarded<T extends object, K extends keyof T & string>(
  what: string,
  part: T,
  method: K,
  wrong: (answer: unknown, given: unknown) => string | undefined,
): T {
  const own = part[method];
  if (typeof own !== 'function') return part;
  const failed = (said: string, cause?: unknown) =>
    new OwnCodeFailed(`your ${what} ${said}: fix its module, then start a run with another name`, { cause });
  const answerOf = (given: unknown[]): unknown => {
    try {
      return own.apply(part, given) as unknown;
    } catch (error) {
      if (error instanceof LossRefused) throw error;
      throw failed(`threw ${error instanceof Error ? `${error.name}: ` : ''}${messageWithPlace(error)}`, error);
    }
  };
  const call = (...given: unknown[]): unknown => {
    const answer = answerOf(given);
    const problem = wrong(answer, given[0]);
    if (problem !== undefined) throw failed(`returned ${problem}`);
    return answer;
  };
  return Object.create(part, { [method]: { value: call, enumerable: true } }) as T;
}
