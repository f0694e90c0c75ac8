/** Code of the user's own inside an update: what it throws is named as its, since no retry and no machine mends it. */

import { messageWithPlace } from '../../modules/own-frame.ts';
import { LossRefused } from './losses/loss.ts';

/** A loss or an estimator of one's own threw. */
export class OwnCodeFailed extends Error {
  override readonly name = 'OwnCodeFailed';
}

/** What is wrong with the numbers that were given for `count` tokens, or rewards; `undefined`: nothing. */
export function miscounted(name: string, given: ArrayLike<number> | undefined, count: number): string | undefined {
  return given?.length === count ? undefined : `${given?.length ?? 'no'} ${name} for ${count}`;
}

/**
 * `part` with its `method` guarded; all else is its own. `wrong` says what is wrong with an answer: what is too short would
 * be read as zeros, or shift all that follows. Errors of the method: `LossRefused`, `OwnCodeFailed`.
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
    new OwnCodeFailed(`the ${what} of one's own ${said}: mend its module, then start a run of another name`, { cause });
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
    if (problem !== undefined) throw failed(`gave ${problem}`);
    return answer;
  };
  return Object.create(part, { [method]: { value: call, enumerable: true } }) as T;
}
