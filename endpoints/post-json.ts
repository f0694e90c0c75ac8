/** One HTTP exchange in JSON, with one deadline for all of it. */

import { classifyResponse } from './classify-response.ts';
import { EndpointError } from './endpoint-error.ts';
import { type ByteAnswer, exchangeBytes } from './exchange-bytes.ts';

export interface Exchange {
  readonly url: string;
  /** Absent: a GET. */
  readonly body?: unknown;
  readonly apiKey?: string;
  /** True if the operator listed the address. Then it is not checked against the forbidden ones. */
  readonly isNamed?: boolean;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

function send({ url, body, apiKey, isNamed = false }: Exchange, signal: AbortSignal): Promise<ByteAnswer> {
  const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
  const headers = {
    accept: 'application/json',
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
  };
  return exchangeBytes({ url, payload, headers, isNamed }, signal);
}

/** `shown`: the text that an error message may quote. */
function parsed(text: string, shown: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new EndpointError('unavailable', `the answer is not JSON: ${shown.slice(0, 100)}`);
  }
}

/** The status of an error that a gateway passes on with status 200: its code is then in the body. */
function statusInBody(value: unknown): number | undefined {
  const error = typeof value === 'object' && value !== null && 'error' in value ? value.error : undefined;
  if (typeof error !== 'object' || error === null) return undefined;
  const code = 'code' in error ? Number(error.code) : Number.NaN;
  return code >= 400 && code < 600 ? code : 502;
}

/**
 * Removes the key from an error's message: servers quote a key that they reject, and it must not get into logs or
 * histories.
 */
export function withoutKey(error: EndpointError, apiKey: string | undefined): EndpointError {
  if (!apiKey || !error.message.includes(apiKey)) return error;
  return new EndpointError(error.kind, error.message.replaceAll(apiKey, '***'), {
    status: error.status,
    retryAfterMs: error.retryAfterMs,
    context: error.context,
  });
}

/**
 * Returns the answer's JSON. Errors: `EndpointError`; the reason of `signal` if that was aborted.
 */
export async function exchangeJson(exchange: Exchange): Promise<unknown> {
  const { signal, timeoutMs, apiKey, url } = exchange;
  signal.throwIfAborted();
  const deadline = AbortSignal.timeout(timeoutMs);
  try {
    const { status, headers, bytes } = await send(exchange, AbortSignal.any([signal, deadline]));
    const text = bytes.toString('utf8');
    // Before messages are shortened: if the cut fell inside the key, its first half would remain.
    const body = apiKey ? text.replaceAll(apiKey, '***') : text;
    if (status < 200 || status >= 300) throw classifyResponse({ status, headers, body });
    const value = parsed(text, body);
    const inBody = statusInBody(value);
    if (inBody !== undefined) throw classifyResponse({ status: inBody, headers, body });
    return value;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof EndpointError) throw withoutKey(error, apiKey);
    if (deadline.aborted) throw new EndpointError('timeout', `${url} gave no answer within ${timeoutMs / 1000} s`);
    const { code, message } = error as NodeJS.ErrnoException;
    throw new EndpointError('unavailable', `${url}: ${message || code || 'the connection failed'}`, { cause: error });
  }
}
