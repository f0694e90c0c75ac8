/**
 * Admits callers: with a key, or, if the server has none, under a loopback host name. Limits the number of answers at
 * once.
 */

import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { ApiError } from './api-error.ts';

export const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', '::1', 'localhost']);

const digestOf = (text: string) => createHash('sha256').update(text).digest();

/** Names of hosts know no case, and may end with the root's dot. */
function isLoopbackHost(host: string): boolean {
  const name = host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
  return LOOPBACK.has(name.toLowerCase().replace(/\.$/, ''));
}

/** The part of a request that says who asks whom. */
export type CallerRequest = Pick<IncomingMessage, 'headers' | 'headersDistinct' | 'url'>;

/** The host of a target in absolute form, which counts instead of the header (RFC 9112 3.2.2). */
const hostOfTarget = (url = ''): string | undefined => (url.startsWith('/') ? undefined : URL.parse(url)?.host);

/** Errors: `ApiError` 400 for several hosts: another reader could choose another one (RFC 9112 3.2). */
export function checkHost({ headersDistinct }: CallerRequest): void {
  if ((headersDistinct['host'] ?? []).length > 1) throw new ApiError(400, 'host: give it once');
}

/** Errors: `ApiError` if the caller is not admitted. */
export function checkCaller({ headers, url }: CallerRequest, apiKey: string | undefined): void {
  const { authorization = '', host = '' } = headers;
  if (apiKey !== undefined) {
    // Anthropic's clients send `x-api-key`.
    const own = headers['x-api-key'];
    const given = /^Bearer (.+)$/i.exec(authorization)?.[1] ?? (typeof own === 'string' ? own : '');
    if (!timingSafeEqual(digestOf(given), digestOf(apiKey)))
      throw new ApiError(401, 'a valid key is required: send the header Authorization: Bearer KEY, or x-api-key: KEY', {
        code: 'invalid_api_key',
      });
  } else if (!isLoopbackHost(host) || !isLoopbackHost(hostOfTarget(url) ?? host)) {
    // A web page in a browser of this machine may have its own host name resolved to this address (DNS rebinding).
    throw new ApiError(
      403,
      'this server has no key, so the request’s host must be a loopback name: 127.0.0.1, ::1 or localhost',
    );
  }
}

/** Limits the number of running answers. A request whose body is still being received holds no slot. */
export class Slots {
  readonly #most: number;
  #taken = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** Errors: `ApiError` 429 if no slot is free. */
  check(): void {
    if (this.#taken >= this.#most)
      throw new ApiError(429, 'too many requests at once: retry later', {
        code: 'rate_limit_exceeded',
        retryAfterSeconds: 1,
      });
  }

  /** Holds a slot while `work` runs. Errors: `ApiError` 429; those of `work`. */
  async hold<T>(work: () => Promise<T>): Promise<T> {
    this.check();
    this.#taken += 1;
    try {
      return await work();
    } finally {
      this.#taken -= 1;
    }
  }
}
