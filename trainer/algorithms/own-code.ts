/** Code of the user's own inside an update: what it throws is named as its, since no retry and no machine mends it. */

import { LossRefused } from './losses/loss.ts';

/** A loss or an estimator of one's own threw. */
export class OwnCodeFailed extends Error {
  override readonly name = 'OwnCodeFailed';
}

/** `part` with its `method` guarded; all else is its own. Errors of the method: `LossRefused`, `OwnCodeFailed`. */
export function guarded<T extends object, K extends keyof T & string>(what: string, part: T, method: K): T {
  const own = part[method];
  if (typeof own !== 'function') return part;
  const call = (...given: unknown[]): unknown => {
    try {
      return own.apply(part, given) as unknown;
    } catch (error) {
      if (error instanceof LossRefused) throw error;
      throw new OwnCodeFailed(`the ${what} of one's own threw ${String(error)}: mend its module, then start a run of another name`, { cause: error });
    }
  };
  return Object.create(part, { [method]: { value: call, enumerable: true } }) as T;
}
