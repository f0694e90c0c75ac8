/** A refusal: its status, its message, the parameter at fault, and a code; each server writes it as its clients read it. */

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

/** What a server makes of what goes wrong. */
export interface ErrorDialect {
  /** A failure as a refusal: with status 500 what is no request's fault. */
  readonly refusalOf: (error: unknown) => ApiError;
  readonly bodyOf: (error: ApiError) => object;
}
