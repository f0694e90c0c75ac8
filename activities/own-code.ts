/** Errors of users' code: each becomes a failure that names the file and line that threw it. */

import { messageWithPlace, ownFrame } from '../modules/own-frame.ts';
import { withSources } from '../modules/source-places.ts';
import { classOfError, FAILURES } from '../protocol/failure-policy.ts';
import { classifyDiskError, isTransient } from '../store/disk-errors.ts';

const nameOf = (error: unknown): string => (error instanceof Error ? `${error.name}: ` : '');

/**
 * Throws `error` as what `failed` makes of its message, if a user's code threw it, and as it is otherwise: a full disk
 * is not the fault of any code. `what`: "the grader".
 */
export function blameOwnCode(error: unknown, what: string, failed: (message: string) => Error): never {
  // A judge that is down, and a budget that is spent, are no fault of the code that asks.
  if (error instanceof Error && FAILURES[classOfError(error.name)].alwaysHolds) throw error;
  if (isTransient(classifyDiskError(error, 'the disk of this worker')) || ownFrame(error) === undefined) throw error;
  // No cause: its message would be shown instead, without the place.
  const failure = failed(`${what} threw ${nameOf(error)}${messageWithPlace(error)}`);
  if (error instanceof Error && error.stack !== undefined)
    failure.stack = `${failure.name}: ${failure.message}\n${withSources(error.stack)}`;
  throw failure;
}
