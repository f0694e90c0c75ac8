/** A server that tools and environments use (retrieval, search, pages) gives no answer that can be used. */

export interface ServiceDetails {
  /** Of the server's answer. */
  readonly status?: number;
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
  /** True if the request cannot have had an effect: it was not sent, or the server refused it. Default: false. */
  readonly unsent?: boolean;
}

/** The failure `service-unavailable`: never an observation, and never a reward. */
export class ServiceUnavailable extends Error {
  override readonly name = 'ServiceUnavailable';
  /** `key`: the worker lacks it, or the server refuses it. */
  readonly kind: 'connection' | 'timeout' | 'server' | 'client' | 'not-json' | 'answer' | 'key';
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;
  readonly unsent: boolean;

  constructor(kind: ServiceUnavailable['kind'], message: string, details: ServiceDetails = {}) {
    super(message, { cause: details.cause });
    this.kind = kind;
    this.status = details.status;
    this.retryAfterMs = details.retryAfterMs;
    this.unsent = details.unsent ?? false;
  }
}
