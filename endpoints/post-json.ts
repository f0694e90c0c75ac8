/**
 * One HTTP exchange in JSON, with one deadline for all of it. It does not use `fetch`, which aborts if the first byte
 * of the answer takes more than five minutes, as in a long generation.
 */

import { Agent as HttpAgent, type IncomingMessage, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { classifyResponse } from './classify-response.ts';
import { EndpointError } from './endpoint-error.ts';
import { checkHost, guardedLookup } from './never-asked.ts';

const agents = { 'http:': new HttpAgent({ keepAlive: true }), 'https:': new HttpsAgent({ keepAlive: true }) };

/** Limit on an answer: a context of a million tokens with log-probabilities is smaller. */
const MAX_BYTES = 256 * 1024 * 1024;

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

/** Does not follow redirects: a redirect is an answer like any other, so the key is not sent to another address. */
function send({ url, body, apiKey, isNamed = false }: Exchange, signal: AbortSignal): Promise<IncomingMessage> {
  const target = new URL(url);
  if (!isNamed) checkHost(target);
  const secure = target.protocol === 'https:';
  const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
  const headers = {
    accept: 'application/json',
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    ...(payload === undefined ? {} : { 'content-type': 'application/json', 'content-length': payload.length }),
  };
  const options = {
    method: payload ? 'POST' : 'GET',
    headers,
    signal,
    agent: agents[secure ? 'https:' : 'http:'],
    ...(isNamed ? {} : { lookup: guardedLookup }),
  };
  return new Promise((resolve, reject) => {
    const sent = (secure ? httpsRequest : httpRequest)(target, options, resolve);
    sent.on('error', reject);
    sent.end(payload);
  });
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_BYTES) throw new EndpointError('protocol', `the answer is longer than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
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
function toldStatus(value: unknown): number | undefined {
  const error = typeof value === 'object' && value !== null && 'error' in value ? value.error : undefined;
  if (typeof error !== 'object' || error === null) return undefined;
  const code = 'code' in error ? Number(error.code) : Number.NaN;
  return code >= 400 && code < 600 ? code : 502;
}

/**
 * Removes the key from an error's message: servers quote a key that they reject, and it must not get into logs or
 * histories.
 */
function withoutKey(error: EndpointError, apiKey: string | undefined): EndpointError {
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
    const answer = await send(exchange, AbortSignal.any([signal, deadline]));
    const text = await textOf(answer);
    // Before messages are shortened: if the cut fell inside the key, its first half would remain.
    const body = apiKey ? text.replaceAll(apiKey, '***') : text;
    const { statusCode: status = 0, headers } = answer;
    if (status < 200 || status >= 300) throw classifyResponse({ status, headers, body });
    const value = parsed(text, body);
    const told = toldStatus(value);
    if (told !== undefined) throw classifyResponse({ status: told, headers, body });
    return value;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof EndpointError) throw withoutKey(error, apiKey);
    if (deadline.aborted) throw new EndpointError('timeout', `${url} gave no answer within ${timeoutMs / 1000} s`);
    const { code, message } = error as NodeJS.ErrnoException;
    throw new EndpointError('unavailable', `${url}: ${message || code || 'the connection failed'}`, { cause: error });
  }
}
