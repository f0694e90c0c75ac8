/**
 * Refusals as the SDK shows them: it prints the body. What the caller did wrong is 400, 404 or 422, which the SDK
 * raises at once; 429 and 5xx make it wait and send the request again, so they are for what passes by itself.
 */

import { z } from 'zod';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { isTransient } from '../../store/disk-errors.ts';
import { OperationConflict } from '../../store/tinker/journal.ts';
import { ApiError, type ErrorDialect } from '../http/api-error.ts';

const MOST_TOLD = 2000;

const isConflict = (error: unknown): boolean =>
  error instanceof OperationConflict || (error instanceof Error && error.name === 'OperationConflict');

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof UserInputError) return new ApiError(400, error.message);
  if (error instanceof z.ZodError) {
    const [issue] = error.issues;
    return new ApiError(422, `${issue?.path.join('.') || 'body'}: ${issue?.message ?? 'it cannot be used'}`);
  }
  if (isConflict(error))
    return new ApiError(400, 'seq_id: another request has this number; number the requests of a model one by one');
  if (isTransient(error))
    return new ApiError(503, 'the disk of the journal takes nothing now: retry later', { retryAfterSeconds: 5 });
  return new ApiError(500, `the server failed (${error instanceof Error ? error.name : 'unknown'})`);
}

export const TINKER_ERRORS: ErrorDialect = {
  refusalOf: asApiError,
  bodyOf: ({ status, message }) => ({
    detail: message.slice(0, MOST_TOLD),
    category: status < 500 ? 'user' : 'server',
  }),
};
