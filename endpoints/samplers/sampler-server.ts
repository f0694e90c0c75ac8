/**
 * One server that samples weights trained elsewhere: its routes, asked in JSON. Each request is checked against the
 * operator's lists and has a deadline. A request over a connection that the server had just closed, as vLLM does after
 * an error, is sent once more over a new one: each of them may be repeated. Nothing else is retried here.
 */

import { classifyResponse } from '../classify-response.ts';
import { EndpointError } from '../endpoint-error.ts';
import { exchangeBytes, wasClosed } from '../exchange-bytes.ts';
import { Permissions } from '../permissions.ts';

/** Loading weights of many GB takes minutes. */
const REQUEST_SECONDS = 900;
/** A look at the server's state: a server that hangs must not hold those who could ask the next one. */
const LOOK_SECONDS = 30;
/** What a proxy answers for a server that is not there. */
const AWAY_STATUS = [502, 504];
/** Node's codes of a connection that was not made. */
const AWAY_CODES = ['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT'];

/** Nobody received the request: the server is down, or starts. One that ends during a request is not meant. */
export function isAway({ kind, status, cause }: EndpointError): boolean {
  if (kind !== 'unavailable') return false;
  if (status !== undefined) return AWAY_STATUS.includes(status);
  return cause instanceof Error && AWAY_CODES.includes((cause as NodeJS.ErrnoException).code ?? '');
}

export class SamplerServer {
  /** Without `/v1`. */
  readonly address: string;
  readonly #apiKeyEnv: string | undefined;
  readonly #permissions: Permissions;

  /** Errors: `BadEntry` if a list in the environment cannot be parsed. */
  constructor(address: string, apiKeyEnv: string | undefined, env: NodeJS.ProcessEnv) {
    this.address = address;
    this.#apiKeyEnv = apiKeyEnv;
    this.#permissions = new Permissions(env);
  }

  get(path: string, signal: AbortSignal): Promise<unknown> {
    return this.#exchange(path, undefined, signal);
  }

  /** The answer's JSON; its text if it is none, as vLLM confirms an adapter. */
  post(path: string, body: unknown, signal: AbortSignal): Promise<unknown> {
    return this.#exchange(path, body, signal);
  }

  /** Errors: `EndpointError`, with the address; the reason of `signal`. */
  async #exchange(path: string, body: unknown, signal: AbortSignal): Promise<unknown> {
    const url = `${this.address}/${path}`;
    const isNamed = this.#permissions.isNamed(url);
    const key = this.#permissions.keyOf(this.#apiKeyEnv, url);
    const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    const headers = {
      accept: 'application/json',
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(payload && { 'content-type': 'application/json' }),
    };
    const hidden = (text: string): string => (key ? text.replaceAll(key, '***') : text);
    signal.throwIfAborted();
    const seconds = body === undefined ? LOOK_SECONDS : REQUEST_SECONDS;
    const deadline = AbortSignal.timeout(seconds * 1000);
    const request = { url, payload, headers, isNamed };
    const either = AbortSignal.any([signal, deadline]);
    try {
      const answer = await exchangeBytes(request, either).catch((error: unknown) => {
        if (wasClosed(error)) return exchangeBytes({ ...request, overNew: true }, either);
        throw error;
      });
      const text = answer.bytes.toString('utf8');
      const { status } = answer;
      if (status < 200 || status >= 300)
        throw classifyResponse({ status, headers: answer.headers, body: hidden(text) });
      return parsed(text);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof EndpointError)
        throw new EndpointError(error.kind, `${url}: ${hidden(error.message)}`, {
          status: error.status,
          retryAfterMs: error.retryAfterMs,
          context: error.context,
        });
      if (deadline.aborted) throw new EndpointError('timeout', `${url} gave no answer within ${seconds} s`);
      const { code, message } = error as NodeJS.ErrnoException;
      throw new EndpointError('unavailable', `${url}: ${message || code || 'the connection failed'}`, { cause: error });
    }
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
