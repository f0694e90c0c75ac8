/**
 * Hunts, over real HTTP on loopback: retries that cannot help, and missing ones that could; a key that leaks; a caller
 * that waits for ever, or that cannot cancel. Not asserted: what any model answers.
 */
import { afterEach, describe, expect, it } from 'vitest';
import { detectOffer } from '../../endpoints/detect-offer.ts';
import type { Endpoint } from '../../protocol/endpoint.ts';
import { EndpointClient } from '../../endpoints/endpoint-client.ts';
import type { EndpointError } from '../../endpoints/endpoint-error.ts';
import type { TokenCall } from '../../endpoints/tokens/token-call.ts';
import { resolveEndpoint } from '../../workflows/rollout/resolve-policy.ts';
import { type Answer, type Handler, type LoopbackServer, startLoopback } from '../support/endpoint/http-server.ts';

let server: LoopbackServer | undefined;
afterEach(() => server?.close());

const refuse = (field: string) => {
  throw new Error(field);
};

/** A server that returns `answers` in order, then always the last one. */
async function asking(answers: ReadonlyArray<Answer | Handler | null>, settings: Partial<Endpoint> = {}) {
  let next = 0;
  server = await startLoopback((asked, signal) => {
    const answer = answers[Math.min(next++, answers.length - 1)] ?? null;
    return typeof answer === 'function' ? answer(asked, signal) : answer;
  });
  const endpoint = resolveEndpoint({ baseUrl: server.baseUrl, model: 'm', ...settings }, 'endpoint', refuse);
  return {
    server,
    endpoint,
    client: new EndpointClient({
      KEY: 'sk-very-secret',
      LONGHAUL_KEYS: `KEY@${server.baseUrl},NOT_THERE@${server.baseUrl}`,
    }),
  };
}

const call: TokenCall = {
  tokens: [5, 6, 7],
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 100 },
  stopTokenIds: [2],
  seed: 9,
};
const { signal } = new AbortController();
const good: Answer = {
  body: {
    choices: [
      {
        finish_reason: 'stop',
        token_ids: [8, 2],
        prompt_token_ids: [5, 6, 7],
        logprobs: { tokens: ['a', 'b'], token_logprobs: [-0.5, -0.25] },
      },
    ],
    usage: { prompt_tokens: 3, completion_tokens: 2 },
  },
};
const failing = (status: number, message = 'no', headers = {}): Answer => ({
  status,
  headers,
  body: { error: { message } },
});
const sample = async (answers: Parameters<typeof asking>[0], settings: Partial<Endpoint> = {}) => {
  const world = await asking(answers, settings);
  const answer = world.client.sampleTokens(world.endpoint, 'vllm', call, signal);
  return { ...world, answer: await answer.catch((error: unknown) => error as EndpointError) };
};

describe('a request', () => {
  it('sets every field that affects sampling, so the server’s defaults do not matter', async () => {
    const { answer, server } = await sample([good], { apiKeyEnv: 'KEY' });
    expect(answer).toEqual({ tokens: [8, 2], logprobs: [-0.5, -0.25], finish: 'stop' });
    expect(server.asked[0]?.path).toBe('/v1/completions');
    expect(server.asked[0]?.headers.authorization).toBe('Bearer sk-very-secret');
    expect(server.asked[0]?.body).toMatchObject({
      model: 'm',
      prompt: [5, 6, 7],
      max_tokens: 100,
      temperature: 1,
      top_p: 1,
      top_k: -1,
      min_p: 0,
      repetition_penalty: 1,
      stop_token_ids: [2],
      seed: 9,
      return_token_ids: true,
    });
  });

  it.each([
    ['an internal error', failing(500)],
    ['a server that is starting', failing(503)],
    ['too many requests', failing(429, 'slow down', { 'retry-after': '0' })],
    ['a broken connection', null],
    ['an error that a gateway reports as success', { body: { error: { code: 502, message: 'upstream is gone' } } }],
    ['a page of a proxy', { body: '<html>hello</html>' }],
  ])('is retried after %s', async (_, answer) => {
    const { server, answer: got } = await sample([answer, good]);
    expect(got).toMatchObject({ tokens: [8, 2] });
    expect(server.asked.length).toBe(2);
  });

  it.each([
    [401, 'auth'],
    [404, 'bad-request'],
    [400, 'bad-request'],
    [402, 'quota'],
  ])('is sent once if the status is %i', async (status, kind) => {
    const { server, answer } = await sample([failing(status), good]);
    expect(answer).toMatchObject({ kind });
    expect(server.asked.length).toBe(1);
  });

  it('is sent once if a gateway reports a wrong key as success', async () => {
    const { server, answer } = await sample([{ body: { error: { code: 401, message: 'no such key' } } }, good]);
    expect(answer).toMatchObject({ kind: 'auth' });
    expect(server.asked.length).toBe(1);
  });

  it('is retried up to the limit, and then throws the reason', async () => {
    const { server, answer } = await sample([failing(500, 'out of order')], { maxTries: 2 });
    expect(answer).toMatchObject({ kind: 'unavailable', message: 'HTTP 500: out of order' });
    expect(server.asked.length).toBe(2);
  });

  it('does not hold its slot for minutes: for a long wait it ends, and the activity retries', async () => {
    const { server, answer } = await sample([failing(429, 'later', { 'retry-after': '3600' }), good]);
    expect(answer).toMatchObject({ kind: 'rate-limited', retryAfterMs: 3_600_000 });
    expect(server.asked.length).toBe(1);
  });

  it('without an answer ends at its deadline', async () => {
    const { answer } = await sample([() => new Promise<Answer>(() => undefined)], { timeoutSeconds: 0.2, maxTries: 1 });
    expect(answer).toMatchObject({ kind: 'timeout' });
  });

  it('to a closed port is reported as unavailable', async () => {
    const { client, endpoint, server } = await asking([good], { maxTries: 1 });
    await server.close();
    await expect(client.sampleTokens(endpoint, 'vllm', call, signal)).rejects.toMatchObject({ kind: 'unavailable' });
  });

  it('that is cancelled closes its connection', async () => {
    const { client, endpoint, server } = await asking([
      (_, gone) => new Promise((resolve) => gone.addEventListener('abort', () => resolve(null))),
    ]);
    const cancelling = new AbortController();
    const answer = client.sampleTokens(endpoint, 'vllm', call, cancelling.signal);
    const refused = expect(answer).rejects.toThrow('cancelled here');
    await expect.poll(() => server.asked.length).toBe(1);
    cancelling.abort(new Error('cancelled here'));
    await refused;
    await expect.poll(() => server.hungUp).toEqual(['/v1/completions']);
  });

  it('does not show a key that the server quotes', async () => {
    const { answer } = await sample([failing(401, 'Incorrect API key provided: sk-very-secret')], { apiKeyEnv: 'KEY' });
    expect((answer as EndpointError).message).toContain('***');
    expect((answer as EndpointError).message).not.toContain('secret');
  });

  it('does not show a part of a key if a long message is cut inside it', async () => {
    const { answer } = await sample([failing(401, `${'x'.repeat(290)} sk-very-secret, which is not known here`)], {
      apiKeyEnv: 'KEY',
    });
    expect((answer as EndpointError).message).not.toContain('sk-very');
  });

  it('is not sent if its key is not set', async () => {
    const { answer, server } = await sample([good], { apiKeyEnv: 'NOT_THERE' });
    expect(answer).toMatchObject({ kind: 'auth' });
    expect((answer as EndpointError).message).toContain('NOT_THERE');
    expect(server.asked).toEqual([]);
  });

  it('requests fewer tokens if the server reports how many fit', async () => {
    const full = failing(
      400,
      "This model's maximum context length is 40 tokens. However, you requested 103 tokens (3 in the messages, 100 in the completion).",
    );
    const { server, answer } = await sample([full, good]);
    expect(answer).toMatchObject({ tokens: [8, 2] });
    expect(server.asked.map(({ body }) => body['max_tokens'])).toEqual([100, 37]);
  });

  it('without any room in the context is reported as such', async () => {
    const { server, answer } = await sample([failing(400, "This model's maximum context length is 3 tokens.")]);
    expect(answer).toMatchObject({ kind: 'context' });
    expect(server.asked.length).toBe(1);
  });

  it('waits for the one before it if the limit is one at a time', async () => {
    let atOnce = 0;
    let most = 0;
    const slow: Handler = async () => {
      most = Math.max(most, (atOnce += 1));
      await new Promise((resolve) => setTimeout(resolve, 10));
      atOnce -= 1;
      return good;
    };
    const { client, endpoint } = await asking([slow], { maxConcurrent: 2 });
    await Promise.all(Array.from({ length: 8 }, () => client.sampleTokens(endpoint, 'vllm', call, signal)));
    expect(most).toBe(2);
  });
});

describe('the limit of tokens per minute, in chat', () => {
  const said = (prompt: number | null): Answer => ({
    body: {
      choices: [{ finish_reason: 'stop', message: { content: 'Hello' } }],
      ...(prompt === null ? {} : { usage: { prompt_tokens: prompt, completion_tokens: 1 } }),
    },
  });
  const ask = (characters: number, tool = '') => ({
    messages: [{ role: 'user', content: 'x'.repeat(characters) }],
    tools:
      tool === '' ? [] : [{ type: 'function' as const, function: { name: 't', description: tool, parameters: {} } }],
    sampling: { ...call.sampling, maxTokens: 10 },
  });

  /**
   * Sends `first` and then a small request; returns the number that the server got. 6,000 tokens a minute are 100 a
   * second.
   */
  async function seenAfter(first: ReturnType<typeof ask>, usage: number | null, expected: number): Promise<number> {
    const { client, endpoint, server } = await asking([said(usage)], { tokensPerMinute: 6000 });
    await client.chat(endpoint, first, signal);
    const patience = AbortSignal.timeout(expected === 2 ? 10_000 : 200);
    await client.chat(endpoint, ask(1), patience).catch(() => undefined);
    return server.asked.length;
  }

  it.each([
    ['delays the request after a long prompt, even if the server reports no usage', ask(40_000), null, 1],
    ['counts the tools with the prompt', ask(1, 'x'.repeat(40_000)), null, 1],
    ['is charged the reported usage, if that is more than the estimate', ask(1), 10_000, 1],
    ['is credited if the estimate was too high', ask(40_000), 50, 2],
    ['does not treat a usage of 0 as a count', ask(40_000), 0, 1],
    ['admits small requests', ask(1), null, 2],
  ])('%s', async (_, first, usage, seen) => expect(await seenAfter(first, usage, seen)).toBe(seen));
});

describe('an answer', () => {
  const vllm = (choice: object, usage: object | null = { prompt_tokens: 3 }) => ({
    body: { choices: [{ finish_reason: 'stop', ...choice }], usage },
  });

  it.each([
    ['other prompt ids', vllm({ token_ids: [8], prompt_token_ids: [1, 5, 6, 7] }), 'retokenised'],
    ['another number of prompt tokens', vllm({ token_ids: [8] }, { prompt_tokens: 4 }), 'retokenised'],
    ['no information about the prompt', vllm({ token_ids: [8] }, null), 'protocol'],
    ['no ids', vllm({ text: 'hello', logprobs: { tokens: ['hel', 'lo'], token_logprobs: [-1, -1] } }), 'protocol'],
    ['no choice', { body: { choices: [] } }, 'malformed'],
    ['no end', vllm({ finish_reason: null, token_ids: [8, 2], prompt_token_ids: [5, 6, 7] }), 'unavailable'],
    [
      'an error in the middle',
      vllm({ finish_reason: 'abort', token_ids: [8], prompt_token_ids: [5, 6, 7] }),
      'unavailable',
    ],
  ])('with %s is rejected', async (_, answer, kind) => {
    expect((await sample([answer], { maxTries: 1 })).answer).toMatchObject({ kind });
  });

  it('that is malformed or not finished is asked for again, and each failure is reported', async () => {
    const failures: string[] = [];
    const chat = (finish_reason: string | null) => ({
      body: { choices: [{ finish_reason, message: { content: 'a' } }] },
    });
    const { client, endpoint, server } = await asking([{ body: { choices: [] } }, chat('error'), chat('stop')]);
    const asked = { messages: [{ role: 'user', content: 'x' }], tools: [], sampling: call.sampling };
    const answer = await client.reporting(({ kind }) => failures.push(kind)).chat(endpoint, asked, signal);
    expect(answer).toMatchObject({ turn: { content: 'a' }, finish: 'stop' });
    expect(server.asked).toHaveLength(3);
    expect(failures).toEqual(['malformed', 'unavailable']);
  });

  it('of an older vLLM has its ids among the log-probabilities', async () => {
    const { answer } = await sample([
      vllm({ logprobs: { tokens: ['token_id:8', 'token_id:2'], token_logprobs: [-1, -2] } }),
    ]);
    expect(answer).toEqual({ tokens: [8, 2], logprobs: [-1, -2], finish: 'stop' });
  });

  it('with incomplete log-probabilities has none: they would be assigned to other tokens', async () => {
    const { answer } = await sample([
      vllm({ token_ids: [8, 2], logprobs: { tokens: ['a', 'b'], token_logprobs: [-1, null] } }),
    ]);
    expect(answer).toMatchObject({ tokens: [8, 2], logprobs: null });
  });

  it("of SGLang and of llama.cpp is parsed by their own field names, at the server's own paths", async () => {
    const sglang = {
      body: {
        meta_info: {
          prompt_tokens: 3,
          finish_reason: { type: 'length', length: 2 },
          output_token_logprobs: [
            [-1, 8, null],
            [-2, 9, 'x'],
          ],
        },
      },
    };
    const first = await asking([sglang]);
    expect(await first.client.sampleTokens(first.endpoint, 'sglang', call, signal)).toEqual({
      tokens: [8, 9],
      logprobs: [-1, -2],
      finish: 'length',
    });
    expect(first.server.asked[0]).toMatchObject({
      path: '/generate',
      body: { input_ids: [5, 6, 7], sampling_params: { max_new_tokens: 100, stop_token_ids: [2] } },
    });
    await first.server.close();
    const llama = {
      body: {
        tokens: [8, 2],
        tokens_evaluated: 3,
        truncated: false,
        stop_type: 'eos',
        completion_probabilities: [
          { id: 8, logprob: -1 },
          { id: 2, logprob: -2 },
        ],
      },
    };
    const second = await asking([llama]);
    expect(await second.client.sampleTokens(second.endpoint, 'llama.cpp', call, signal)).toEqual({
      tokens: [8, 2],
      logprobs: [-1, -2],
      finish: 'stop',
    });
    expect(second.server.asked[0]).toMatchObject({
      path: '/completion',
      body: { prompt: [5, 6, 7], n_predict: 100, return_tokens: true },
    });
  });
});

describe('the offer', () => {
  const models = (owner: string): Answer => ({ body: { data: [{ id: 'm', owned_by: owner, max_model_len: 64 }] } });
  const offer = async (answers: Parameters<typeof asking>[0], settings: Partial<Endpoint> = {}) => {
    const { client, endpoint } = await asking(answers, { tokenizer: '/t', ...settings });
    return detectOffer(endpoint, [5, 6, 7], client, signal).catch((error: unknown) => error as EndpointError);
  };

  it('is ids if the server is known and uses the ids that it was sent', async () => {
    expect(await offer([models('vllm'), good])).toEqual({ mode: 'tokens', protocol: 'vllm', contextTokens: 64 });
  });

  it.each([
    ['an unknown server', [models('somebody')]],
    ['a server without a list of models', [failing(404)]],
    [
      'a server that tokenises again',
      [
        models('vllm'),
        { body: { choices: [{ finish_reason: 'length', token_ids: [8], prompt_token_ids: [1, 5, 6, 7] }] } },
      ],
    ],
    ['a server without completions', [models('vllm'), failing(404)]],
  ])('is chat at %s, with the reason; and an error if ids are required', async (_, answers) => {
    expect(await offer(answers)).toMatchObject({ mode: 'chat', reason: expect.stringMatching(/./) as string });
    await server?.close();
    expect(['protocol', 'retokenised', 'bad-request']).toContain(
      ((await offer(answers, { mode: 'tokens' })) as EndpointError).kind,
    );
  });

  it.each(['sglang', 'llamacpp'])(
    'is of the model that is named: %s itself would not tell that it has another',
    async (owner) => {
      const other: Answer = { body: { data: [{ id: 'other', owned_by: owner }] } };
      expect(await offer([other])).toMatchObject({ kind: 'unknown-model', message: 'the server has other' });
    },
  );

  it.each([
    ['a key that is wrong', failing(401), 'auth'],
    ['a server that is out of order', failing(500), 'unavailable'],
  ])('is unknown after %s, which is an error', async (_, answer, kind) => {
    expect(await offer([answer], { maxTries: 1 })).toMatchObject({ kind });
  });
});
