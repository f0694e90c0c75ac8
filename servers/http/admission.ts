/** Who may come in, and how many at once: by a key, or, without one, under a loopback name; each answer holds a slot. */

import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { ApiError } from './api-error.ts';

export const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', '::1', 'localhost']);

const digestOf = (text: string) => createHash('sha256').update(text).digest();

function isLoopbackHost(host: string): boolean {
  return LOOPBACK.has(host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1'));
}

/** Errors: `ApiError` where the caller may not come in. */
export function checkCaller({ authorization = '', host = '' }: IncomingHttpHeaders, apiKey: string | undefined): void {
  if (apiKey !== undefined) {
    const given = /^Bearer (.+)$/i.exec(authorization)?.[1] ?? '';
    if (!timingSafeEqual(digestOf(given), digestOf(apiKey)))
      throw new ApiError(401, 'a valid key is needed: Authorization: Bearer KEY', { code: 'invalid_api_key' });
  } else if (!isLoopbackHost(host)) {
    // A page in a browser of this machine may have had its own name resolved to this address.
    throw new ApiError(403, 'this server answers to loopback names only');
  }
}

/** Answers in the making. A request whose body still comes holds none. */
export class Slots {
  readonly #most: number;
  #taken = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** Errors: `ApiError` 429 where none is free. */
  check(): void {
    if (this.#taken >= this.#most)
      throw new ApiError(429, 'too many requests at once', { code: 'rate_limit_exceeded', retryAfterSeconds: 1 });
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
