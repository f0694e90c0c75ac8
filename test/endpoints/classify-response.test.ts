/**
 * Hunts errors with the wrong class: a retry that cannot help, an end although a wait would help, a full context that
 * is reported as a failure. The texts are those that the servers are documented, or reported, to send.
 */
import { describe, expect, it } from 'vitest';
import { classifyResponse, retryAfterMs } from '../../endpoints/classify-response.ts';

const openAi = (message: string, code: string | null = null, type = 'invalid_request_error') =>
  JSON.stringify({ error: { message, type, param: null, code } });
const classed = (status: number, body: string, headers = {}) => classifyResponse({ status, headers, body }, 0);

describe('a refusal', () => {
  it.each([
    ['a wrong key', 401, openAi('Incorrect API key provided', 'invalid_api_key'), 'auth'],
    ['a key without the right', 403, openAi('Country not supported'), 'auth'],
    [
      'an account that has run dry, told as 429',
      429,
      openAi('You exceeded your current quota', 'insufficient_quota', 'insufficient_quota'),
      'quota',
    ],
    ['a spend limit, told as 429', 429, openAi('limit reached', 'project_spend_limit_exceeded'), 'quota'],
    ['payment required', 402, 'Payment Required', 'quota'],
    ['too many requests', 429, openAi('Rate limit reached', 'rate_limit_exceeded', 'requests'), 'rate-limited'],
    ['an unknown model of OpenAI', 404, openAi('The model `x` does not exist', 'model_not_found'), 'unknown-model'],
    [
      'an unknown model of vLLM',
      404,
      JSON.stringify({ object: 'error', message: 'The model `x` does not exist.', type: 'NotFoundError', code: 404 }),
      'unknown-model',
    ],
    ['an unknown path', 404, JSON.stringify({ detail: 'Not Found' }), 'bad-request'],
    [
      'a setting that is refused',
      400,
      openAi("Unsupported value: 'temperature' does not support 0.7", 'unsupported_value'),
      'bad-request',
    ],
    ['a body that does not validate', 422, JSON.stringify({ detail: [{ msg: 'field required' }] }), 'bad-request'],
    ['an internal error', 500, 'Internal Server Error', 'unavailable'],
    ['a gateway without its server', 502, '<html>Bad Gateway</html>', 'unavailable'],
    [
      'a model that is being loaded',
      503,
      JSON.stringify({ error: { code: 503, message: 'Loading model', type: 'unavailable_error' } }),
      'unavailable',
    ],
    ['a gateway that waited too long', 504, '', 'unavailable'],
    [
      'an answer that llama.cpp cannot read itself',
      500,
      JSON.stringify({
        error: {
          code: 500,
          message: 'The model produced output that does not match the expected peg-native format',
          type: 'server_error',
        },
      }),
      'unreadable',
    ],
    [
      'the same, as it was worded before',
      500,
      JSON.stringify({ error: { code: 500, message: 'Failed to parse input at pos 12: <tool', type: 'server_error' } }),
      'unreadable',
    ],
    ['another address', 308, '', 'bad-request'],
  ])('%s is classified by who can fix it', (_, status, body, kind) => {
    expect(classed(status, body).kind).toBe(kind);
  });

  it.each([
    [
      'OpenAI',
      openAi(
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        'context_length_exceeded',
      ),
      { limit: 8192, prompt: 9000 },
    ],
    [
      'vLLM',
      JSON.stringify({
        object: 'error',
        message:
          "This model's maximum context length is 16384 tokens. However, you requested 19591 tokens (9591 in the messages, 10000 in the completion).",
        type: 'BadRequestError',
        code: 400,
      }),
      { limit: 16384, prompt: 9591 },
    ],
    [
      'vLLM, later',
      openAi(
        "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 2048 tokens and your request has 10 input tokens",
      ),
      { limit: 2048, prompt: 10 },
    ],
    [
      'vLLM, a prompt alone',
      openAi('The decoder prompt (length 163840) is longer than the maximum model length of 131072.'),
      { limit: 131072 },
    ],
    [
      'SGLang',
      JSON.stringify({
        object: 'error',
        message: "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
        type: 'BadRequestError',
        code: 400,
      }),
      { limit: 40960, prompt: 61709 },
    ],
    [
      'SGLang, by its pool',
      openAi('Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).'),
      { limit: 59862, prompt: 160062 },
    ],
    [
      'SGLang, by prompt and answer',
      openAi(
        "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 9500 tokens: 7500 tokens from the input messages and 2000 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
      ),
      { limit: 8192, prompt: 7500 },
    ],
    [
      'llama.cpp',
      JSON.stringify({
        error: {
          code: 400,
          message: 'request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it',
          type: 'exceed_context_size_error',
          n_prompt_tokens: 9412,
          n_ctx: 8192,
        },
      }),
      { limit: 8192, prompt: 9412 },
    ],
    [
      'TGI, a prompt alone',
      JSON.stringify({
        error: 'Input validation error: `inputs` must have less than 1024 tokens. Given: 2000',
        error_type: 'validation',
      }),
      { limit: 1024, prompt: 2000 },
    ],
    [
      'TGI, with its answer',
      JSON.stringify({
        error:
          'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3900 `inputs` tokens and 400 `max_new_tokens`',
        error_type: 'validation',
      }),
      { limit: 4096, prompt: 3900 },
    ],
    [
      'Gemini',
      JSON.stringify([
        {
          error: {
            code: 400,
            message: 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
            status: 'INVALID_ARGUMENT',
          },
        },
      ]),
      { limit: 1048576, prompt: 1200000 },
    ],
    [
      'Anthropic, a prompt alone',
      JSON.stringify({
        type: 'error',
        error: { type: 'invalid_request_error', message: 'prompt is too long: 208310 tokens > 200000 maximum' },
      }),
      { limit: 200000, prompt: 208310 },
    ],
    [
      'Anthropic, with its answer',
      JSON.stringify({
        type: 'error',
        error: {
          type: 'invalid_request_error',
          message:
            'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again',
        },
      }),
      { limit: 200000, prompt: 188240 },
    ],
  ])('for a full context is recognised, from %s', (_, body, context) => {
    expect(classed(400, body)).toMatchObject({ kind: 'context', context });
  });

  it('has the status, the reason and the target of a redirect', () => {
    expect(classed(400, openAi('no such thing')).message).toBe('HTTP 400: no such thing');
    expect(classed(308, '', { location: 'https://other/v1' }).message).toContain('https://other/v1');
  });
});

describe('the wait that a server requests', () => {
  it.each([
    ['seconds', { 'retry-after': '7' }, 7000],
    ['a date', { 'retry-after': new Date(90_000).toUTCString() }, 90_000],
    ['milliseconds', { 'retry-after-ms': '250', 'retry-after': '1' }, 250],
    ['a date that has passed', { 'retry-after': new Date(-5000).toUTCString() }, 0],
    ['no header', {}, undefined],
    ['nonsense', { 'retry-after': 'soon' }, undefined],
  ])('is read from %s', (_, headers, wait) => {
    expect(retryAfterMs(headers, 0)).toBe(wait);
  });
});
