/**
 * Classifies a server's error response. OpenAI, vLLM, SGLang and llama.cpp share status codes, but not wording. A
 * response that matches no rule is classified by its status.
 *
 * Wording: OpenAI's error codes (platform.openai.com/docs/guides/error-codes); vLLM, issue vllm-project/vllm#20409
 * ("This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages,
 * 10000 in the completion)"), and what 0.32.0 answered (test/endpoints/recorded); SGLang, issues
 * sgl-project/sglang#4048 and #8096 ("The input (85050 tokens) is longer than the model's context length (32768
 * tokens).", "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens)"), and
 * srt/managers/tokenizer_manager.py of 0.5.23; llama.cpp, tools/server (`exceed_context_size_error`: "request (9412
 * tokens) exceeds the available context size (8192 tokens)", with `n_prompt_tokens` and `n_ctx`; common/chat.cpp, with
 * status 500 although the model is at fault: "The model produced output that does not match the expected peg-native
 * format", in older versions "Failed to parse input at pos 12").
 */

import { EndpointError, type EndpointErrorKind } from './endpoint-error.ts';

export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

/** Codes of a status 429 that no wait resolves. */
const QUOTA = new Set([
  'insufficient_quota',
  'credit_balance_exhausted',
  'billing_hard_limit_reached',
  'organization_spend_limit_exceeded',
  'project_spend_limit_exceeded',
  'organization_usage_limit_exceeded',
]);

/** The requested answer alone does not fit, for any prompt. vLLM shortens a smaller request to what fits. */
const ANSWER_ALONE = /max_tokens=\d+ cannot be greater than max_model_len/i;

const TOO_LONG = [
  /maximum context length/i,
  /longer than the (model's context|maximum model) length/i,
  /exceeds? the (available context size|maximum allowed length|model's (maximum )?context)/i,
  /prompt is too long/i,
  /input length and `?max_tokens`? exceed context limit/i,
  /input token count(?: \(\d+\))? exceeds the maximum number of tokens/i,
  /`?inputs`? (?:tokens \+ `?max_new_tokens`? must be <=|must have less than)/i,
  /reduce the length of the messages/i,
  /context window/i,
  ANSWER_ALONE,
  // No context remains for an answer.
  /max_tokens must be at least 1, got 0/i,
];

/** Reported as a server error, but the same request fails again. */
const UNREADABLE = [/model produced output that does not match/i, /^failed to parse input at pos \d+/i];

/** `transformers serve` with one model, status 400. */
const OTHER_MODEL = /^server is pinned to .*; requested /i;

const LIMIT = [
  /maximum context length (?:is|of) (\d+)/i,
  /context length \((\d+) tokens\)/i,
  /maximum allowed length \((\d+) tokens\)/i,
  /context size \((\d+) tokens\)/i,
  /maximum model length of (\d+)/i,
  /max_model_len=(\d+)/i,
  /maximum number of tokens allowed \(?(\d+)/i,
  /must be <= (\d+)/i,
  /must have less than (\d+) tokens/i,
  /exceed context limit: .*> (\d+)/i,
  /prompt is too long: \d+ tokens > (\d+)/i,
];

const PROMPT = [
  /your request has (\d+) input tokens/i,
  /prompt contains (?:at least )?(\d+) (?:input )?tokens/i,
  /\((\d+) in the (?:messages|prompt)/i,
  /messages resulted in (\d+) tokens/i,
  /(\d+) tokens from the input messages/i,
  /(?:input|request|length) \((\d+) tokens\)/i,
  /input token count \((\d+)\)/i,
  /given: (\d+)(?: `?inputs`? tokens)?/i,
  /prompt is too long: (\d+) tokens/i,
  /exceed context limit: (\d+) \+/i,
];

interface Said {
  readonly message: string;
  readonly code: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Reads `{error: {message, type, code}}` (OpenAI), `{message, …}` or `{error: "…"}` (others), or plain text. */
function readRefusal(body: string): Said {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    return { message: body.trim().slice(0, 300), code: '', fields: {} };
  }
  const outer = isObject(parsed) ? parsed : {};
  const fields = isObject(outer['error']) ? outer['error'] : outer;
  const text = [fields['message'], outer['error'], outer['detail']].find((value) => typeof value === 'string');
  const codes = [fields['code'], fields['type']].filter((value) => typeof value === 'string');
  return { message: String(text ?? body).slice(0, 300), code: codes.join(' '), fields };
}

function firstNumber(patterns: readonly RegExp[], text: string): number | undefined {
  for (const pattern of patterns) {
    const found = pattern.exec(text)?.[1];
    if (found !== undefined) return Number(found);
  }
  return undefined;
}

function contextOf({ message, fields }: Said): { limit: number; prompt?: number } | undefined {
  const field = (name: string) => (typeof fields[name] === 'number' ? fields[name] : undefined);
  const limit = field('n_ctx') ?? firstNumber(LIMIT, message);
  const prompt =
    field('n_prompt_tokens') ?? firstNumber(PROMPT, message) ?? (ANSWER_ALONE.test(message) ? 0 : undefined);
  return limit === undefined ? undefined : { limit, ...(prompt === undefined ? {} : { prompt }) };
}

/** Milliseconds that `retry-after-ms` or `Retry-After` (seconds or a date) requests. */
export function retryAfterMs(headers: Refusal['headers'], now: number): number | undefined {
  const text = (name: string) =>
    typeof headers[name] === 'string' && headers[name] !== '' ? headers[name] : undefined;
  const ms = Number(text('retry-after-ms') ?? Number.NaN);
  if (Number.isFinite(ms)) return Math.max(0, ms);
  const after = text('retry-after');
  if (after === undefined) return undefined;
  const wait = Number.isFinite(Number(after)) ? Number(after) * 1000 : Date.parse(after) - now;
  return Number.isFinite(wait) ? Math.max(0, wait) : undefined;
}

function kindOf({ status }: Refusal, { message, code }: Said): EndpointErrorKind {
  const codes = code.split(' ');
  if (status === 402 || codes.some((one) => QUOTA.has(one))) return 'quota';
  if (status === 401 || status === 403) return 'auth';
  const tooLong = codes.some((one) => one === 'context_length_exceeded' || one === 'exceed_context_size_error');
  if (tooLong || (status >= 400 && status < 500 && TOO_LONG.some((pattern) => pattern.test(message)))) return 'context';
  if (status === 500 && UNREADABLE.some((pattern) => pattern.test(message))) return 'unreadable';
  if (status === 429) return 'rate-limited';
  if (codes.includes('model_not_found') || (status === 404 && /model/i.test(message)) || OTHER_MODEL.test(message))
    return 'unknown-model';
  if (status === 408 || status === 409 || status === 425 || status >= 500) return 'unavailable';
  return 'bad-request';
}

/** The error for an answer with a status other than 2xx. */
export function classifyResponse(refusal: Refusal, now: number = Date.now()): EndpointError {
  const said = readRefusal(refusal.body);
  const { status, headers } = refusal;
  const target = status >= 300 && status < 400 ? ` (it points to ${String(headers['location'])})` : '';
  return new EndpointError(kindOf(refusal, said), `HTTP ${status}${target}: ${said.message}`, {
    status,
    retryAfterMs: retryAfterMs(headers, now),
    context: contextOf(said),
  });
}
