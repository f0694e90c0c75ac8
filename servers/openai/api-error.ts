/** Refusals as OpenAI's clients read them: message, type, the parameter at fault, and a code. */

import { ApiError, type ErrorDialect } from '../http/api-error.ts';

/** Of a message and of a parameter's name: both may quote what a caller sent. */
const MOST_TOLD = 2000;

/** Source: platform.openai.com/docs/guides/error-codes. */
function typeOf(status: number): string {
  if (status === 401) return 'authentication_error';
  if (status === 429) return 'rate_limit_error';
  return status < 500 ? 'invalid_request_error' : 'server_error';
}

export function errorBody({ status, message, param, code }: ApiError): object {
  const [told, at] = [message.slice(0, MOST_TOLD), param?.slice(0, MOST_TOLD) ?? null];
  return { error: { message: told, type: typeOf(status), param: at, code } };
}

/** The words are vLLM's: clients read the numbers out of them. */
export function contextExceeded(limit: number, prompt: number, answer: number): ApiError {
  const message = `This model's maximum context length is ${limit} tokens. However, you requested ${prompt + answer} tokens (${prompt} in the messages, ${answer} in the completion).`;
  return new ApiError(400, message, { code: 'context_length_exceeded' });
}

/** Errors of these names are the mistake of who sent the request: the engine's, and the chat template's. */
const MISTAKES = new Set(['InvalidRequest', 'ChatTemplateRefused']);

/** What went wrong as a refusal; what is no fault of the request says nothing of the inside. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  if (MISTAKES.has(name)) return new ApiError(400, message);
  if (name === 'ContextTooLong') return new ApiError(400, message, { code: 'context_length_exceeded' });
  if (name === 'TimeoutError')
    return new ApiError(504, 'the answer took longer than this server allows', { code: 'timeout' });
  return new ApiError(500, `the engine failed (${name})`);
}

export const OPENAI_ERRORS: ErrorDialect = { refusalOf: asApiError, bodyOf: errorBody };
