/**
 * Reads bodies as bytes, of JSON unless another type is asked for. Each body has a maximum size and a time limit, and
 * all bodies together have a budget, so that slow callers do not use up memory or keep out others.
 */

import type { IncomingMessage } from 'node:http';
import { ApiError } from './api-error.ts';

export interface BodyLimits {
  /** Maximum size of one body. */
  readonly maxBodyBytes: number;
  /** Time to receive one body. In seconds. */
  readonly bodySeconds: number;
  /** Maximum size of all bodies that are being received or wait for processing, together. */
  readonly bodyBudgetBytes: number;
}

interface Incoming {
  bytes: number;
  readonly most: number;
  readonly refuse: (error: unknown) => void;
}

const TOO_MANY = 'too many bytes are being received at once: retry later';

const tooLong = (most: number): ApiError => new ApiError(413, `a request may have at most ${most} bytes`);

export class BodyReader {
  readonly #limits: BodyLimits;
  readonly #incoming = new Set<Incoming>();
  #held = 0;

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  /**
   * Returns the result of `use` for the body; the body's bytes count in the budget until then. A refused body is not
   * read further: the HTTP adapter discards the rest for a moment, so that the caller can read the refusal, then closes
   * the connection. `hold` counts what `use` makes of the body, as its decompressed bytes. `limit`: of this body, in
   * bytes. Errors: `ApiError` for another content type, a body that is too long or too slow, and one beyond the budget;
   * `AbortError` if the caller closes the connection; those of `use`.
   */
  async use<T>(
    request: IncomingMessage,
    use: (body: Buffer, hold: (bytes: number) => void) => Promise<T>,
    types: readonly string[] = ['application/json'],
    limit = Infinity,
  ): Promise<T> {
    const most = Math.min(limit, this.#limits.maxBodyBytes);
    // A web page of another origin cannot send such a content type without a CORS preflight.
    const type = request.headers['content-type']?.split(';')[0]?.trim().toLowerCase() ?? '';
    if (!types.includes(type)) throw new ApiError(415, `content-type: send ${types.join(' or ')}`);
    if (Number(request.headers['content-length'] ?? 0) > most) throw tooLong(most);
    const refused = Promise.withResolvers<never>();
    const one: Incoming = { bytes: 0, most, refuse: refused.reject };
    this.#incoming.add(one);
    try {
      const body = await this.#read(request, one, refused.promise).finally(() => this.#incoming.delete(one));
      return await use(body, (bytes) => this.#hold(one, bytes));
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
    let isWhole = false;
    const onEnd = () => {
      isWhole = true;
      ended.resolve(undefined);
    };
    // A request that was read to its end closes too.
    const onClose = () => {
      if (!isWhole) ended.reject(new DOMException('the caller closed the connection', 'AbortError'));
    };
    const late = setTimeout(
      () =>
        one.refuse(
          new ApiError(408, `the body was not received within ${this.#limits.bodySeconds} s`, { code: 'timeout' }),
        ),
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
    if (one.bytes > one.most) one.refuse(tooLong(one.most));
    if (this.#held <= this.#limits.bodyBudgetBytes) return;
    // The largest body, not the latest: otherwise a few large, stalled bodies would keep out all small ones.
    const [largest = one] = [...this.#incoming].toSorted((a, b) => b.bytes - a.bytes);
    largest.refuse(new ApiError(429, TOO_MANY, { code: 'rate_limit_exceeded', retryAfterSeconds: 1 }));
  }

  /** Errors: `ApiError` 429 beyond the budget. */
  #hold(one: Incoming, bytes: number): void {
    if (this.#held + bytes > this.#limits.bodyBudgetBytes)
      throw new ApiError(429, TOO_MANY, { code: 'rate_limit_exceeded', retryAfterSeconds: 1 });
    one.bytes += bytes;
    this.#held += bytes;
  }
}
