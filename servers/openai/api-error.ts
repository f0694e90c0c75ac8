/** A refusal as OpenAI's clients read it: status, message, type, the parameter at fault, and a code. */

export interface ApiErrorDetails {
  readonly param?: string;
  readonly code?: string;
  readonly retryAfterSeconds?: number;
}

/** Source: platform.openai.com/docs/guides/error-codes. */
function typeOf(status: number): string {
  if (status === 401) return 'authentication_error';
  if (status === 429) return 'rate_limit_error';
  return status < 500 ? 'invalid_request_error' : 'server_error';
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

  get body(): object {
    return { error: { message: this.message, type: typeOf(this.status), param: this.param, code: this.code } };
  }
}

/** The words are vLLM's: clients read the numbers out of them. */
export function contextExceeded(limit: number, prompt: number, answer: number): ApiError {
  const message = `This model's maximum context length is ${limit} tokens. However, you requested ${prompt + answer} tokens (${prompt} in the messages, ${answer} in the completion).`;
  return new ApiError(400, message, { code: 'context_length_exceeded' });
}

/** What went wrong as a refusal; what is no fault of the request says nothing of the inside. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  if (name === 'InvalidRequest' || name === 'ChatTemplateRefused') return new ApiError(400, message);
  if (name === 'TimeoutError')
    return new ApiError(504, 'the answer took longer than this server allows', { code: 'timeout' });
  return new ApiError(500, `the engine failed (${name})`);
}
