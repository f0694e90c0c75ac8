/** A refusal: status, message, the wrong parameter, and a code. Each server writes it in its clients' format. */

import type { IncomingHttpHeaders } from 'node:http';

export interface ApiErrorDetails {
  readonly param?: string | undefined;
  readonly code?: string | undefined;
  readonly retryAfterSeconds?: number | undefined;
}

export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly param: string | null;
  readonly code: string | null;
  readonly retryAfterSeconds: number | undefined;

  constructor(status: number, message: string, { param, code, retryAfterSeconds }: ApiErrorDetails = {}) {
    super(message);
    this.status = status;
    this.param = param ?? null;
    this.code = code ?? null;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** `path`: `''` if it cannot be read. */
export interface RefusedRequest {
  readonly path: string;
  readonly requestId: string;
  readonly headers: IncomingHttpHeaders;
}

/** How a server turns errors into refusals, and refusals into bodies. */
export interface ErrorDialect {
  /** An error as a refusal; status 500 if the request is not at fault. */
  readonly refusalOf: (error: unknown) => ApiError;
  readonly bodyOf: (error: ApiError, request: RefusedRequest) => object;
}
