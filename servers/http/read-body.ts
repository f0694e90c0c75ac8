/**
 * Reads bodies of JSON by bytes: each has a largest size and a time to come in, and all together have a budget, so that
 * callers who send slowly cost neither memory nor the turns of others.
 */

import type { IncomingMessage } from 'node:http';
import { ApiError } from './api-error.ts';

export interface BodyLimits {
  /** Of one body. */
  readonly maxBodyBytes: number;
  /** For one body to come in. */
  readonly bodySeconds: number;
  /** Of all bodies that come in or wait to be read, together. */
  readonly bodyBudgetBytes: number;
}

interface Incoming {
  bytes: number;
  readonly refuse: (error: unknown) => void;
}

export class BodyReader {
  readonly #limits: BodyLimits;
  readonly #incoming = new Set<Incoming>();
  #held = 0;

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  /**
   * What `use` makes of the body; its bytes count until then. What is refused is not read any further: the adapter drops
   * the rest for a moment, so that the caller reads why, and hangs up then.
   * Errors: `ApiError` for another type, a body that is too long or too slow, and one that the budget has no room for;
   * an `AbortError` when the caller hangs up; those of `use`.
   */
  async use<T>(request: IncomingMessage, use: (body: Buffer) => Promise<T>): Promise<T> {
    // What a page of another origin can send without asking is never JSON by its type.
    if (!/^application\/json\b/i.test(request.headers['content-type'] ?? ''))
      throw new ApiError(415, 'content-type: give application/json');
    if (Number(request.headers['content-length'] ?? 0) > this.#limits.maxBodyBytes) throw this.#tooLong();
    const refused = Promise.withResolvers<never>();
    const one: Incoming = { bytes: 0, refuse: refused.reject };
    this.#incoming.add(one);
    try {
      const body = await this.#read(request, one, refused.promise).finally(() => this.#incoming.delete(one));
      return await use(body);
    } finally {
      this.#held -= one.bytes;
    }
  }

  async #read(request: IncomingMessage, one: Incoming, refused: Promise<never>): Promise<Buffer> {
    const chunks: Buffer[] = [];
    const ended = Promise.withResolvers<undefined>();
    const onData = (chunk: Buffer) => {
      chunks.push(chunk);
      this.#count(one, chunk.length);
    };
    const onEnd = () => ended.resolve(undefined);
    const onClose = () => ended.reject(new DOMException('the caller hung up', 'AbortError'));
    const late = setTimeout(
      () => one.refuse(new ApiError(408, `a body has ${this.#limits.bodySeconds} s to come in`, { code: 'timeout' })),
      this.#limits.bodySeconds * 1000,
    );
    request.on('data', onData).on('end', onEnd).on('error', onClose).on('close', onClose);
    try {
      await Promise.race([ended.promise, refused]);
      return Buffer.concat(chunks);
    } finally {
      clearTimeout(late);
      request.off('data', onData).off('end', onEnd).off('close', onClose);
    }
  }

  #count(one: Incoming, bytes: number): void {
    one.bytes += bytes;
    this.#held += bytes;
    if (one.bytes > this.#limits.maxBodyBytes) one.refuse(this.#tooLong());
    if (this.#held <= this.#limits.bodyBudgetBytes) return;
    // Not whose bytes came last: a few large bodies that stand still would keep every small one out.
    const [largest = one] = [...this.#incoming].toSorted((a, b) => b.bytes - a.bytes);
    const why = 'too many bytes are being received at once';
    largest.refuse(new ApiError(429, why, { code: 'rate_limit_exceeded', retryAfterSeconds: 1 }));
  }

  #tooLong(): ApiError {
    return new ApiError(413, `a request may have ${this.#limits.maxBodyBytes} bytes`);
  }
}
