/** Refusals in OpenAI's format (message, type, the wrong parameter, a code), or in Anthropic's for its callers. */

import { messagesError } from '../apis/messages-answer.ts';
import { ApiError, type ErrorDialect } from '../http/api-error.ts';

/** Maximum length of a message and of a parameter's name, in characters: both may quote the caller's text. */
const MOST_CHARACTERS = 2000;

/** Source: platform.openai.com/docs/guides/error-codes. */
function typeOf(status: number): string {
  if (status === 401) return 'authentication_error';
  if (status === 429) return 'rate_limit_error';
  return status < 500 ? 'invalid_request_error' : 'server_error';
}

export function errorBody({ status, message, param, code }: ApiError): object {
  const [cut, at] = [message.slice(0, MOST_CHARACTERS), param?.slice(0, MOST_CHARACTERS) ?? null];
  return { error: { message: cut, type: typeOf(status), param: at, code } };
}

/** The message is vLLM's, since clients parse the numbers in it. */
export function contextExceeded(limit: number, prompt: number, answer: number): ApiError {
  const message =
    `This model's maximum context length is ${limit} tokens. However, you requested ${prompt + answer} tokens ` +
    `(${prompt} in the messages, ${answer} in the completion).`;
  return new ApiError(400, message, { code: 'context_length_exceeded' });
}

/** Anthropic's message, for requests that bound the answer alone. */
export function promptTooLong(limit: number): ApiError {
  const message = `prompt is too long: it and one token of the answer need more than the context's ${limit} tokens`;
  return new ApiError(400, message, { code: 'context_length_exceeded' });
}

/** Names of errors (of the engine and the chat template) that are the caller's mistake. */
const MISTAKES = new Set(['InvalidRequest', 'ChatTemplateRefused']);

/** An error as a refusal. If the request is not at fault, the message has no internal details. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  if (MISTAKES.has(name)) return new ApiError(400, message);
  if (name === 'ContextTooLong') return new ApiError(400, message, { code: 'context_length_exceeded' });
  if (name === 'TimeoutError')
    return new ApiError(504, 'the answer took longer than this server allows', { code: 'timeout' });
  return new ApiError(500, `the engine failed (${name})`);
}

const MESSAGES = /^\/v1\/messages(?:\/|$)/u;
const OPENAI = /^\/v1\/(?:completions|chat\/completions|responses)(?:\/|$)/u;

/**
 * Refusals in the shape of the API that the path belongs to. Paths that both have, and those that neither has, are
 * Anthropic's for callers that name a version of its API.
 */
export const API_ERRORS: ErrorDialect = {
  refusalOf: asApiError,
  bodyOf: (error, { path, requestId, headers }) =>
    MESSAGES.test(path) || (headers['anthropic-version'] !== undefined && !OPENAI.test(path))
      ? messagesError(error, requestId)
      : errorBody(error),
};
