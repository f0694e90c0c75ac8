/** Errors of endpoints, by cause. The kind alone decides between a retry, an observation and the end of the rollout. */

export type EndpointErrorKind =
  /** This worker may not send the key to the address. */
  | 'key-not-allowed'
  /** This worker may not send requests to the address. */
  | 'address-not-allowed'
  /** The key is missing, wrong, or lacks the permission. */
  | 'auth'
  /** The account's quota or credit is used up: no wait helps. */
  | 'quota'
  | 'unknown-model'
  /** The server rejects the request. */
  | 'bad-request'
  /** The prompt, or prompt and answer together, do not fit into the context. */
  | 'context'
  /** The server could not parse its own model's answer, and returns nothing of it. */
  | 'unreadable'
  /** The server's answer is not in the form of its API. */
  | 'malformed'
  /** The server's answer lacks what the mode needs. */
  | 'protocol'
  /** The server used other prompt ids than were sent. */
  | 'retokenised'
  | 'rate-limited'
  | 'unavailable'
  | 'timeout';

export interface EndpointErrorDetails {
  readonly status?: number | undefined;
  readonly retryAfterMs?: number | undefined;
  /** Size of the server's context and of the prompt, in tokens, if the response reports them. */
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

  /** True if the same request may succeed later. */
  get isTransient(): boolean {
    return ['rate-limited', 'unavailable', 'timeout', 'malformed'].includes(this.kind);
  }
}
