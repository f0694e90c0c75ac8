/**
 * The client of endpoints. It respects each one's limits, retries transient errors, and reduces the requested tokens to
 * the context's room. It keeps no state except the limits; its callers record the answers.
 */

import { EndpointError } from './endpoint-error.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ChatCall, chatRequest, promptTokensAbout, promptTokensIn, readChat } from './chat.ts';
import { type ChatAnswer, type Endpoint, nativeUrl, openAiUrl, type TokenProtocol } from '../protocol/endpoint.ts';
import { Permissions } from './permissions.ts';
import { type Exchange, exchangeJson, withoutKey } from './post-json.ts';
import { RateLimiter } from './rate-limiter.ts';
import { dialectOf } from './tokens/sample-tokens.ts';
import type { TokenAnswer, TokenCall } from './tokens/token-call.ts';

/**
 * Remaining tokens of the server's context for an answer, if the error reports them and a smaller request can succeed.
 */
export function roomIn(error: unknown, asked: number, promptTokens?: number): number | undefined {
  if (!(error instanceof EndpointError) || error.kind !== 'context' || !error.context) return undefined;
  const prompt = promptTokens ?? error.context.prompt;
  const room = prompt === undefined ? 0 : error.context.limit - prompt;
  return room > 0 && room < asked ? room : undefined;
}

/** A request's use of the limit on tokens per minute. */
interface Cost {
  readonly tokens: number;
  /** Tokens that the answer reports beyond `tokens`; negative if fewer. */
  readonly more?: (answer: unknown) => number;
}

/** Reports the answer to the limiter before that admits the next request. */
async function exchangeWithin(limiter: RateLimiter, exchange: Exchange, { more }: Cost): Promise<unknown> {
  try {
    const answer = await exchangeJson(exchange);
    if (more) limiter.charge(more(answer));
    return answer;
  } catch (error) {
    if (error instanceof EndpointError && error.isTransient && error.retryAfterMs)
      limiter.pause(Math.min(error.retryAfterMs, PATIENCE_MS));
    throw error;
  }
}

/** One request; `read` parses its answer, and an answer that it rejects is retried as its error says. */
interface Request<T> {
  readonly endpoint: Endpoint;
  readonly url: string;
  /** Absent: a GET. */
  readonly body?: unknown;
  readonly cost: Cost;
  readonly read: (answer: unknown) => T;
}

interface Shared {
  readonly limiters?: Map<string, RateLimiter>;
  readonly onFailure?: (error: EndpointError) => void;
}

export class EndpointClient {
  readonly #env: NodeJS.ProcessEnv;
  readonly #permissions: Permissions;
  readonly #limiters: Map<string, RateLimiter>;
  readonly #onFailure: (error: EndpointError) => void;

  /** Errors: `BadEntry` if a list in the environment cannot be parsed. */
  constructor(env: NodeJS.ProcessEnv = process.env, { limiters, onFailure }: Shared = {}) {
    this.#env = env;
    this.#permissions = new Permissions(env);
    this.#limiters = limiters ?? new Map<string, RateLimiter>();
    this.#onFailure = onFailure ?? (() => undefined);
  }

  /** A client with the same limits that also reports each try's failure, before it pauses. */
  reporting(onFailure: (error: EndpointError) => void): EndpointClient {
    return new EndpointClient(this.#env, { limiters: this.#limiters, onFailure });
  }

  /**
   * Errors: `EndpointError`; the reason of `signal`. An answer that was cut at the end of the context has `finish:
   * 'length'`.
   */
  sampleTokens(
    endpoint: Endpoint,
    protocol: TokenProtocol,
    call: TokenCall,
    signal: AbortSignal,
  ): Promise<TokenAnswer> {
    const dialect = dialectOf(protocol);
    const url = dialect.native ? nativeUrl(endpoint, dialect.path) : openAiUrl(endpoint, dialect.path);
    const ask = async (maxTokens: number) => {
      const sized = { ...call, sampling: { ...call.sampling, maxTokens } };
      const body = dialect.request(endpoint.model, sized);
      const cost = { tokens: call.tokens.length + maxTokens };
      return this.#post({ endpoint, url, body, cost, read: (answer) => dialect.read(answer, sized) }, signal);
    };
    return this.#fitting(ask, call.sampling.maxTokens, call.tokens.length);
  }

  /** Errors: those of `sampleTokens`. */
  chat(endpoint: Endpoint, call: ChatCall, signal: AbortSignal): Promise<ChatAnswer> {
    const url = openAiUrl(endpoint, 'chat/completions');
    const about = promptTokensAbout(call);
    const more = (answer: unknown) => (promptTokensIn(answer) ?? about) - about;
    const ask = async (maxTokens: number) => {
      const body = chatRequest(endpoint, { ...call, sampling: { ...call.sampling, maxTokens } });
      const read = (answer: unknown) => readChat(answer, endpoint.finishWords);
      return this.#post({ endpoint, url, body, cost: { tokens: about + maxTokens, more }, read }, signal);
    };
    return this.#fitting(ask, call.sampling.maxTokens);
  }

  /** Errors: those of `sampleTokens`. */
  get(endpoint: Endpoint, url: string, signal: AbortSignal): Promise<unknown> {
    return this.#post({ endpoint, url, cost: { tokens: 0 }, read: (answer) => answer }, signal);
  }

  async #fitting<T>(ask: (maxTokens: number) => Promise<T>, maxTokens: number, promptTokens?: number): Promise<T> {
    try {
      return await ask(maxTokens);
    } catch (error) {
      const room = roomIn(error, maxTokens, promptTokens);
      if (room === undefined) throw error;
      return await ask(room);
    }
  }

  async #post<T>({ endpoint, url, body, cost, read }: Request<T>, signal: AbortSignal): Promise<T> {
    const limiter = this.#limiterOf(endpoint);
    const isNamed = this.#permissions.isNamed(url);
    const apiKey = this.#permissions.keyOf(endpoint.apiKeyEnv, url);
    const exchange = {
      url,
      body,
      isNamed,
      timeoutMs: endpoint.timeoutSeconds * 1000,
      signal,
      ...(apiKey === undefined ? {} : { apiKey }),
    };
    for (let tries = 1; ; tries += 1) {
      try {
        return read(await limiter.run(cost.tokens, signal, () => exchangeWithin(limiter, exchange, cost)));
      } catch (caught) {
        if (!(caught instanceof EndpointError)) throw caught;
        const error = withoutKey(caught, apiKey);
        this.#onFailure(error);
        const wait = retryWaitMs(error, tries, endpoint.maxTries, Math.random());
        if (wait === undefined) throw error;
        await sleep(wait, undefined, { signal });
      }
    }
  }

  /** The limiter of one server, model and key, shared by all rollouts. Other limits have another limiter. */
  #limiterOf({ baseUrl, model, apiKeyEnv, maxConcurrent, requestsPerMinute, tokensPerMinute }: Endpoint): RateLimiter {
    const name = JSON.stringify([baseUrl, model, apiKeyEnv, maxConcurrent, requestsPerMinute, tokensPerMinute]);
    const known = this.#limiters.get(name);
    if (known) return known;
    const limiter = new RateLimiter({ maxConcurrent, requestsPerMinute, tokensPerMinute });
    this.#limiters.set(name, limiter);
    return limiter;
  }
}

const FIRST_MS = 500;

const LONGEST_MS = 30_000;

/**
 * Longest wait before a retry. If the server requests more, this attempt ends and frees its slot, and the activity is
 * retried.
 */
export const PATIENCE_MS = 60_000;

/**
 * Milliseconds to wait before try `tries + 1`; `undefined` if the attempt should end. `chance` in [0, 1) spreads the
 * retries of requests that failed together.
 */
export function retryWaitMs(error: EndpointError, tries: number, maxTries: number, chance: number): number | undefined {
  if (!error.isTransient || tries >= maxTries) return undefined;
  const backoff = Math.min(LONGEST_MS, FIRST_MS * 2 ** (tries - 1)) * (0.5 + chance / 2);
  const wait = Math.max(error.retryAfterMs ?? 0, backoff);
  return wait > PATIENCE_MS ? undefined : wait;
}
