/** What goes wrong at an endpoint, sorted by blame: the kind alone decides between a retry, an observation and an end. */

export type EndpointErrorKind =
  /** This worker may not send the key there. */
  | 'key-not-allowed'
  /** This worker may not ask there at all. */
  | 'address-not-allowed'
  /** No key, a wrong key, a key without the right. */
  | 'auth'
  /** The account has run dry: no wait helps. */
  | 'quota'
  | 'unknown-model'
  /** The server refuses the request as it is. */
  | 'bad-request'
  /** The prompt, or prompt and answer together, do not fit. */
  | 'context-full'
  /** The server could not read its own model's answer, and gives none of it. */
  | 'unreadable'
  /** The server does not give what the mode needs. */
  | 'protocol'
  /** The server saw other ids than were sent. */
  | 'retokenised'
  | 'rate-limited'
  | 'unavailable'
  | 'timeout';

export interface EndpointErrorDetails {
  readonly status?: number | undefined;
  readonly retryAfterMs?: number | undefined;
  /** Tokens that the server's context holds, and that the prompt takes, where a refusal says so. */
  readonly context?: { readonly limit: number; readonly prompt?: number } | undefined;
  readonly cause?: unknown;
}

export class EndpointError extends Error {
  override readonly name = 'EndpointError';
  readonly kind: EndpointErrorKind;
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;
  readonly context: EndpointErrorDetails['context'];

  constructor(kind: EndpointErrorKind, message: string, details: EndpointErrorDetails = {}) {
    super(message, { cause: details.cause });
    this.kind = kind;
    this.status = details.status;
    this.retryAfterMs = details.retryAfterMs;
    this.context = details.context;
  }

  /** Whether the same request may succeed later. */
  get isTransient(): boolean {
    return this.kind === 'rate-limited' || this.kind === 'unavailable' || this.kind === 'timeout';
  }
}
