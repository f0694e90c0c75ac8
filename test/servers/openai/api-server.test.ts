/**
 * Hunts answers that clients of OpenAI's API would misread, streams that differ from the answer in one piece, callers
 * that are admitted without the key, and a server that cuts off running requests. Over real HTTP, with the starter
 * policy in the embedded engine. Not asserted: the text of the policy's answers.
 */
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import { makeProblem } from '../../../tasks/swe-mini/problem.ts';
import { renderPrompt } from '../../../agents/render-conversation.ts';
import { detectOffer } from '../../../endpoints/detect-offer.ts';
import { EndpointClient } from '../../../endpoints/endpoint-client.ts';
import { createEmbeddedEngine, type EmbeddedEngine } from '../../../trainer/embedded/embedded-engine.ts';
import type { Engine } from '../../../trainer/engine.ts';
import type { ChatModel } from '../../../servers/openai/chat-completions.ts';
import { ApiServer, type ApiServerOptions } from '../../../servers/openai/api-server.ts';
import { textOffsets } from '../../../servers/openai/completions.ts';
import { loadTokenizer, type Tokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';
import { resolveEndpoint } from '../../../workflows/rollout/resolve-policy.ts';

const starter = join(packageRoot, 'examples', 'starter');
let engine: EmbeddedEngine;
let tokenizer: Tokenizer;
let server: ApiServer | undefined;
beforeAll(async () => {
  tokenizer = await loadTokenizer(starter);
  engine = await createEmbeddedEngine();
});
afterAll(() => engine?.close());
afterEach(async () => {
  await server?.close(0);
  server = undefined;
});

type Json = Record<string, never> & {
  choices: Array<Record<string, never>>;
  usage: Record<string, number>;
  error: Record<string, unknown>;
};

async function serving(over: Partial<ApiServerOptions> & { engine?: Engine } = {}) {
  const { engine: other, ...options } = over;
  const model: ChatModel = {
    name: 'starter',
    engine: other ?? engine,
    policy: { dir: starter, version: 0 },
    tokenizer,
    contextTokens: 1024,
  };
  server = await ApiServer.start({ model, host: '127.0.0.1', port: 0, ...options });
  const { baseUrl } = server;
  const ask = async (path: string, body?: object, headers: Record<string, string> = {}) => {
    const init = body
      ? { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json', ...headers } }
      : { headers };
    const response = await fetch(new URL(path, `${baseUrl}/`), init);
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: (text.startsWith('{') ? JSON.parse(text) : {}) as Json,
    };
  };
  const chunksOf = async (path: string, body: object) => {
    const { text, headers } = await ask(path, { ...body, stream: true });
    expect(headers.get('content-type')).toBe('text/event-stream');
    const events = text
      .trim()
      .split('\n\n')
      .map((event) => event.replace(/^data: /, ''));
    expect(events.pop()).toBe('[DONE]');
    return events.map((event) => JSON.parse(event) as Json);
  };
  return { baseUrl, ask, chunksOf };
}

/** A first prompt of a real task, as ids. */
function taskPrompt() {
  const messages = [{ role: 'user' as const, content: makeProblem('swe-mini-held-out-0').issue }];
  return { messages, ids: renderPrompt(tokenizer, messages, []) };
}
/** An engine that returns the ids of a text one after the other, over any number of calls. The prompt is one token. */
const saying = (text: string): Engine => ({
  generate: async ({ tokens, sampling: { maxTokens } }) => {
    const next = tokenizer.encode(text).slice(tokens.length - 1, tokens.length - 1 + maxTokens);
    return { tokens: next, logprobs: next.map(() => -1), finishReason: 'length' };
  },
  update: () => Promise.reject(new Error('no')),
  close: async () => undefined,
});
/** A body in one piece, and a promise that resolves when all of it was read. */
function uploaded(body: string, onTaken: () => void): ReadableStream {
  const pieces = [new TextEncoder().encode(body)];
  return new ReadableStream({
    pull: (controller) => {
      const piece = pieces.pop();
      if (piece) return controller.enqueue(piece);
      onTaken();
      controller.close();
    },
  });
}
const tool = {
  type: 'function',
  function: {
    name: 'search',
    description: 'finds text',
    parameters: { type: 'object', properties: { query: { type: 'string' } } },
  },
};

describe('completions', () => {
  it('return the ids and log-probabilities of the engine, for text or ids, the same for the same seed', async () => {
    const { ask } = await serving();
    const { ids } = taskPrompt();
    const body = {
      model: 'starter',
      prompt: ids,
      max_tokens: 12,
      temperature: 1,
      seed: 3,
      logprobs: 0,
      return_token_ids: true,
      return_tokens_as_token_ids: true,
    };
    const { status, json } = await ask('completions', body);
    expect(status).toBe(200);
    const [choice] = json.choices as unknown as Array<{
      token_ids: number[];
      prompt_token_ids: number[];
      logprobs: { tokens: string[]; token_logprobs: number[] };
    }>;
    const sampling = { temperature: 1, topP: 1, topK: 0, maxTokens: 12 };
    const direct = await engine.generate({
      policy: { dir: starter, version: 0 },
      cacheKey: 'd',
      noiseKey: 'seed 3/0',
      tokens: ids,
      sampling,
      stopTokenIds: tokenizer.stopTokenIds,
    });
    expect([choice?.token_ids, choice?.logprobs.token_logprobs, choice?.prompt_token_ids]).toEqual([
      direct.tokens,
      direct.logprobs,
      ids,
    ]);
    expect(choice?.logprobs.tokens).toEqual(direct.tokens.map((id) => `token_id:${id}`));
    expect(json.usage).toEqual({
      prompt_tokens: ids.length,
      completion_tokens: direct.tokens.length,
      total_tokens: ids.length + direct.tokens.length,
    });
    const asText = await ask('completions', { ...body, prompt: tokenizer.decode(ids) });
    expect(asText.json.choices[0]?.['token_ids']).toEqual(direct.tokens);
  });

  it("sample like the engine with vLLM's settings, and return the most likely tokens for each sampled one", async () => {
    const { ask } = await serving();
    const { ids } = taskPrompt();
    const body = {
      model: 'starter',
      prompt: ids,
      max_tokens: 12,
      temperature: 1.5,
      seed: 3,
      min_p: 0.2,
      repetition_penalty: 1.4,
      logprobs: 3,
      return_token_ids: true,
      return_tokens_as_token_ids: true,
    };
    const sampling = { temperature: 1.5, topP: 1, topK: 0, minP: 0.2, repetitionPenalty: 1.4, maxTokens: 12 };
    const direct = await engine.generate({
      policy: { dir: starter, version: 0 },
      cacheKey: 'd',
      noiseKey: 'seed 3/0',
      tokens: ids,
      sampling,
      stopTokenIds: tokenizer.stopTokenIds,
      topLogprobs: 3,
    });
    const expected = direct.topLogprobs!.map((top, i) => ({
      ...Object.fromEntries(top.map(({ token, logprob }) => [`token_id:${token}`, logprob])),
      [`token_id:${direct.tokens[i]!}`]: direct.logprobs[i],
    }));
    // Also if a stop string makes it sample in pieces.
    for (const stop of [[], ['nothing says this']]) {
      const [choice] = (await ask('completions', { ...body, stop })).json.choices as unknown as Array<{
        token_ids: number[];
        logprobs: { top_logprobs: unknown };
      }>;
      expect(choice?.token_ids).toEqual(direct.tokens);
      expect(choice?.logprobs.top_logprobs).toEqual(expected);
    }
    const plain = (await ask('completions', { ...body, min_p: 0, repetition_penalty: 1 })).json.choices[0]?.[
      'token_ids'
    ];
    expect(plain).not.toEqual(direct.tokens);
  });

  it('of several prompts and answers are returned in order', async () => {
    const { ask } = await serving();
    const { json } = await ask('completions', {
      model: 'starter',
      prompt: ['def a', 'def b'],
      n: 2,
      max_tokens: 3,
      seed: 1,
      return_token_ids: true,
    });
    expect(json.choices.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
    expect(json.choices.map((choice) => tokenizer.decode(choice['prompt_token_ids'] as unknown as number[]))).toEqual([
      'def a',
      'def a',
      'def b',
      'def b',
    ]);
    expect(json.usage['prompt_tokens']).toBe(tokenizer.encode('def a').length + tokenizer.encode('def b').length);
  });

  it('return the start of each token in the text, in characters, and never after its end', async () => {
    const said = 'é = "🙂🙂"\n    return é';
    const { ask, chunksOf } = await serving({ engine: saying(said) });
    const body = { model: 'starter', prompt: 'x', max_tokens: 400, temperature: 0, logprobs: 0 };
    type Logprobs = { tokens: string[]; text_offset: number[] };
    const logprobsOf = (json: Json) => json.choices[0]?.['logprobs'] as unknown as Logprobs;
    const length = tokenizer.encode(said).length;
    const { tokens, text_offset: offsets } = logprobsOf(
      (await ask('completions', { ...body, max_tokens: length })).json,
    );
    expect(offsets.length).toBe(length);
    const characters = Array.from(said);
    tokens.forEach((token, i) => {
      // Not for a part of a character, which has the start of the whole character.
      if (token.includes('\uFFFD')) return;
      expect(characters.slice(offsets[i], offsets[i]! + Array.from(token).length).join('')).toBe(token);
    });
    expect(offsets).toEqual(offsets.toSorted((a, b) => a - b));
    const cut = await ask('completions', { ...body, max_tokens: length, stop: '🙂"' });
    const end = Array.from(String(cut.json.choices[0]?.['text'])).length;
    expect(logprobsOf(cut.json).text_offset.every((at) => at <= end)).toBe(true);
    const streamed = await chunksOf('completions', { ...body, max_tokens: length });
    expect(logprobsOf(streamed.at(-1)!).text_offset).toEqual(offsets);
  });

  it('return it after invalid bytes too, and for each part of a character the start of the character', () => {
    const bytes = Buffer.from('é a🙂b');
    // Each byte is a token; the second byte is invalid.
    const all = [...bytes.subarray(0, 2), 0xff, ...bytes.subarray(2)];
    const textOf = (part: readonly number[]) => Buffer.from(part).toString('utf8');
    const offsets = textOffsets(all, textOf(all), textOf);
    expect(offsets).toEqual([0, 0, 1, 2, 3, 4, 4, 4, 4, 5]);
    expect(textOffsets(all, textOf(all).slice(0, 3), textOf)).toEqual([0, 0, 1, 2, 3, 3, 3, 3, 3, 3]);
  });

  it('that are streamed equal the answer in one piece, and end before a stop string', async () => {
    const said = 'def repair(value):\n    return value + 1\n# and so on, as far as anybody asks';
    const { ask, chunksOf } = await serving({ engine: saying(said) });
    const body = { model: 'starter', prompt: 'x', max_tokens: 30, temperature: 0 };
    const textOf = (chunks: Json[]) =>
      chunks.flatMap(({ choices }) => choices.map(({ text }) => String(text))).join('');
    const whole = String((await ask('completions', body)).json.choices[0]?.['text']);
    expect(said.startsWith(whole) && whole.length > 30).toBe(true);
    const streamed = await chunksOf('completions', { ...body, stream_options: { include_usage: true } });
    expect(textOf(streamed)).toBe(whole);
    expect(streamed.length).toBeGreaterThan(3);
    expect(streamed.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 30 } });
    for (const stop of ['return', ['nowhere', '(value)']]) {
      const expected = whole.slice(0, whole.indexOf(typeof stop === 'string' ? stop : '(value)'));
      expect((await ask('completions', { ...body, stop })).json.choices[0]).toMatchObject({
        text: expected,
        finish_reason: 'stop',
      });
      expect(textOf(await chunksOf('completions', { ...body, stop }))).toBe(expected);
    }
  });
});

describe('chat', () => {
  it('returns the calls that the policy made, whole or streamed, and accepts them back with their answers', async () => {
    const { ask, chunksOf } = await serving();
    const body = {
      model: 'starter',
      messages: taskPrompt().messages,
      tools: [tool],
      temperature: 0,
      max_completion_tokens: 30,
    };
    const { json } = await ask('chat/completions', { ...body, logprobs: true });
    const [choice] = json.choices as unknown as Array<{
      finish_reason: string;
      message: { content: string; tool_calls: Array<{ id: string; function: { name: string; arguments: string } }> };
      logprobs: { content: unknown[] };
    }>;
    expect(choice).toMatchObject({
      finish_reason: 'tool_calls',
      message: { role: 'assistant', tool_calls: [{ type: 'function', function: { name: 'search' } }] },
    });
    expect(JSON.parse(choice!.message.tool_calls[0]!.function.arguments)).toMatchObject({
      query: expect.any(String) as string,
    });
    expect(choice?.logprobs.content.length).toBe(json.usage['completion_tokens']);
    const [likely] = (await ask('chat/completions', { ...body, logprobs: true, top_logprobs: 2 })).json
      .choices as unknown as Array<{
      logprobs: {
        content: Array<{ token: string; logprob: number; top_logprobs: Array<{ token: string; logprob: number }> }>;
      };
    }>;
    for (const { token, logprob, top_logprobs: top } of likely!.logprobs.content) {
      // Greedy: the sampled token is the most likely one.
      expect(top[0]).toMatchObject({ token, logprob });
      expect(top.length === 2 && top[1]!.logprob <= logprob).toBe(true);
    }

    const chunks = await chunksOf('chat/completions', body);
    const deltas = chunks.flatMap(
      ({ choices }) =>
        choices as unknown as Array<{
          delta: { role?: string; content?: string; tool_calls?: Array<{ function: object }> };
          finish_reason: string | null;
        }>,
    );
    expect(deltas[0]?.delta.role).toBe('assistant');
    expect(deltas.map(({ delta }) => delta.content ?? '').join('')).toBe(choice!.message.content);
    expect(deltas.flatMap(({ delta }) => delta.tool_calls ?? []).map((call) => call.function)).toEqual([
      choice!.message.tool_calls[0]!.function,
    ]);
    expect(deltas.at(-1)?.finish_reason).toBe('tool_calls');

    const { id } = choice!.message.tool_calls[0]!;
    const next = await ask('chat/completions', {
      ...body,
      messages: [...body.messages, choice!.message, { role: 'tool', tool_call_id: id, content: 'nothing found' }],
      max_completion_tokens: 5,
    });
    expect(next.json.usage['prompt_tokens']).toBeGreaterThan(json.usage['prompt_tokens']!);
  });

  it("works with Longhaul's own client, by ids and by chat", async () => {
    const { baseUrl } = await serving({ apiKey: 'sk-here' });
    const client = new EndpointClient({ KEY: 'sk-here', LONGHAUL_KEYS: `KEY@${baseUrl}` });
    const endpoint = resolveEndpoint(
      { baseUrl, model: 'starter', apiKeyEnv: 'KEY', tokenizer: starter, maxTries: 1 },
      'e',
      (field) => {
        throw new Error(field);
      },
    );
    const { signal } = new AbortController();
    expect(await detectOffer(endpoint, tokenizer.encode('Hello'), client, signal)).toEqual({
      mode: 'tokens',
      protocol: 'vllm',
      contextTokens: 1024,
    });
    const sampling = { temperature: 0, topP: 1, topK: 0, maxTokens: 2000 };
    await expect(
      client.sampleTokens(
        endpoint,
        'vllm',
        { tokens: taskPrompt().ids, sampling, stopTokenIds: tokenizer.stopTokenIds, seed: 1 },
        signal,
      ),
    ).resolves.toMatchObject({ finish: 'stop' });
    await expect(
      client.chat(
        { ...endpoint, model: 'another' },
        { messages: taskPrompt().messages as never, tools: [], sampling },
        signal,
      ),
    ).rejects.toMatchObject({ kind: 'unknown-model' });
  });
});

describe('a request', () => {
  it.each([
    ['of a setting without effect', 'completions', { prompt: 'x', presence_penalty: 0.5 }, 'presence_penalty'],
    [
      'of alternatives alone',
      'chat/completions',
      { messages: [{ role: 'user', content: 'x' }], top_logprobs: 2 },
      'top_logprobs',
    ],
    ['of too many alternatives', 'completions', { prompt: 'x', logprobs: 21 }, 'logprobs'],
    ['of a share above 1', 'completions', { prompt: 'x', min_p: 1.5 }, 'min_p'],
    ['of a field that there is not', 'completions', { prompt: 'x', echos: true }, 'echos'],
    ['to repeat the prompt', 'completions', { prompt: 'x', echo: true }, 'echo'],
    [
      'of a format',
      'chat/completions',
      { messages: [{ role: 'user', content: 'x' }], response_format: { type: 'json_object' } },
      'response_format.type',
    ],
    [
      'to make a call',
      'chat/completions',
      { messages: [{ role: 'user', content: 'x' }], tools: [tool], tool_choice: 'required' },
      'tool_choice',
    ],
    [
      'of a picture',
      'chat/completions',
      { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] },
      'messages.0.content',
    ],
    ['of too many answers', 'completions', { prompt: ['a', 'b'], n: 64 }, 'n'],
    ['of nothing', 'completions', { prompt: '' }, 'prompt'],
  ])('%s is refused by its name', async (_what, path, body, param) => {
    const { ask } = await serving();
    expect(await ask(path, { model: 'starter', ...body })).toMatchObject({
      status: 400,
      json: {
        error: {
          type: 'invalid_request_error',
          param,
          message: expect.stringContaining(param.split('.')[0]!) as string,
        },
      },
    });
  });

  it('that does not fit has status 400, streamed or not; another model or path has its own status', async () => {
    const { ask, baseUrl } = await serving();
    for (const stream of [true, false]) {
      const long = await ask('chat/completions', {
        model: 'starter',
        messages: [{ role: 'user', content: 'x' }],
        max_tokens: 5000,
        stream,
      });
      expect(long).toMatchObject({ status: 400, json: { error: { code: 'context_length_exceeded' } } });
    }
    expect(await ask('completions', { model: 'gpt', prompt: 'x' })).toMatchObject({
      status: 404,
      json: { error: { code: 'model_not_found' } },
    });
    expect((await ask('embeddings', { model: 'starter' })).status).toBe(404);
    expect((await ask('completions')).status).toBe(405);
    expect((await fetch(`${baseUrl}/completions`, { method: 'POST', body: '{}' })).status).toBe(415);
    expect(
      (
        await fetch(`${baseUrl}/completions`, {
          method: 'POST',
          body: '{',
          headers: { 'content-type': 'application/json' },
        })
      ).status,
    ).toBe(400);
  });

  it("that is nested too deep, or has such a call, is refused as the caller's mistake", async () => {
    const { ask, baseUrl } = await serving();
    const deep = `${'{"a":'.repeat(3_000)}1${'}'.repeat(3_000)}`;
    const body = `{"model": "starter", "messages": [{"role": "user", "content": "x"}], "metadata": ${deep}}`;
    const response = await fetch(`${baseUrl}/chat/completions`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    });
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('nested more than')]);
    const calls = [{ id: 'a', function: { name: 'search', arguments: deep } }];
    expect(
      await ask('chat/completions', {
        model: 'starter',
        messages: [{ role: 'assistant', content: '', tool_calls: calls }],
      }),
    ).toMatchObject({ status: 400, json: { error: { param: 'messages.0.tool_calls.0.function.arguments' } } });
  });

  it('without the key is refused, except for the health check', async () => {
    const { ask } = await serving({ apiKey: 'sk-here' });
    for (const headers of [{}, { authorization: 'Bearer sk-other' }, { authorization: 'Bearer ' }]) {
      expect(await ask('models', undefined, headers as Record<string, string>)).toMatchObject({
        status: 401,
        json: { error: { code: 'invalid_api_key' } },
      });
    }
    expect((await ask('models', undefined, { authorization: 'Bearer sk-here' })).json).toMatchObject({
      data: [{ id: 'starter', owned_by: 'longhaul', max_model_len: 1024 }],
    });
    expect(await ask('/health')).toMatchObject({ status: 200, json: { status: 'ok' } });
  });

  it('for the served model returns it, and for another one names the unknown model', async () => {
    const { ask } = await serving();
    const { data } = (await ask('models')).json as unknown as { data: object[] };
    expect(await ask('models/starter')).toMatchObject({ status: 200, json: data[0] });
    for (const other of ['gpt-4', 'some/other', 'star%2Fter', '%ff'])
      expect(await ask(`models/${other}`)).toMatchObject({
        status: 404,
        json: { error: { type: 'invalid_request_error', param: 'model', code: 'model_not_found' } },
      });
  });
});

describe('the server', () => {
  /** An engine that samples when the test says so. */
  function heldEngine() {
    const release = Promise.withResolvers<void>();
    const aborted: unknown[] = [];
    const generate: Engine['generate'] = (_request, signal) =>
      Promise.race([
        release.promise.then(() => ({
          tokens: [tokenizer.encode('a')[0]!],
          logprobs: [-1],
          finishReason: 'length' as const,
        })),
        new Promise<never>((_resolve, reject) =>
          signal?.addEventListener('abort', () => {
            aborted.push(signal.reason);
            reject(signal.reason as Error);
          }),
        ),
      ]);
    return {
      engine: { generate, update: () => Promise.reject(new Error('no')), close: async () => undefined },
      release: release.resolve,
      aborted,
    };
  }
  const one = { model: 'starter', prompt: 'x', max_tokens: 1 };

  it('finishes running requests when it stops, and refuses new ones', async () => {
    const held = heldEngine();
    const { ask } = await serving({ engine: held.engine });
    const answer = ask('completions', one);
    await new Promise((resolve) => setTimeout(resolve, 200));
    const closing = server!.close(20_000);
    await expect(ask('completions', one)).rejects.toThrow();
    held.release();
    expect((await answer).status).toBe(200);
    await closing;
  });

  it('cuts off requests that do not end in time, and stops those whose caller left', async () => {
    const held = heldEngine();
    const { ask, baseUrl } = await serving({ engine: held.engine });
    const gone = new AbortController();
    const left = fetch(`${baseUrl}/completions`, {
      method: 'POST',
      body: JSON.stringify(one),
      headers: { 'content-type': 'application/json' },
      signal: gone.signal,
    }).catch(() => 'gone');
    await new Promise((resolve) => setTimeout(resolve, 200));
    gone.abort();
    expect(await left).toBe('gone');
    await expect.poll(() => held.aborted.length).toBe(1);
    const never = ask('completions', one).catch(() => 'cut');
    await new Promise((resolve) => setTimeout(resolve, 200));
    await server!.close(100);
    expect(['cut', 503]).toContain(await never.then((told) => (typeof told === 'string' ? told : told.status)));
    expect(held.aborted.length).toBe(2);
  });

  it('keeps its limits of requests at once, of size and of time', async () => {
    const held = heldEngine();
    const { ask } = await serving({
      engine: held.engine,
      limits: { maxRequests: 1, maxBodyBytes: 1000, timeoutSeconds: 1 },
    });
    const first = ask('completions', one);
    await new Promise((resolve) => setTimeout(resolve, 200));
    const busy = await ask('completions', one);
    expect([busy.status, busy.headers.get('retry-after')]).toEqual([429, '1']);
    expect(await first).toMatchObject({ status: 504, json: { error: { code: 'timeout' } } });
    expect((await ask('completions', { ...one, prompt: 'x'.repeat(2000) })).status).toBe(413);
  });

  it('gives its slots to complete requests, not to those that are still being received', async () => {
    const { ask, baseUrl } = await serving({ limits: { maxRequests: 1 } });
    const half = Array.from({ length: 3 }, () => {
      const socket = connect(Number(new URL(baseUrl).port), '127.0.0.1');
      const head = 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n';
      socket.write(`${head}Content-Length: 1000\r\n\r\n{"model": `);
      return socket;
    });
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect((await ask('completions', one)).status).toBe(200);
    for (const socket of half) socket.destroy();
  });

  it('answers health checks while a long request is prepared, and prepares the next one when its caller leaves', async () => {
    const { ask, baseUrl } = await serving();
    const body = JSON.stringify({ model: 'starter', prompt: Array(6_000_000).fill(1) });
    const init = { method: 'POST', body, headers: { 'content-type': 'application/json' } };
    const order: string[] = [];
    const given = Promise.withResolvers<void>();
    const long = fetch(`${baseUrl}/completions`, {
      ...init,
      body: uploaded(body, given.resolve),
      duplex: 'half',
    } as never);
    const told = long.then(async (answer) => [order.push('long'), answer.status, await answer.text()]);
    await given.promise;
    await new Promise((resolve) => setTimeout(resolve, 300));
    for (let i = 0; i < 3; i += 1) order.push(String((await ask('/health')).status));
    expect(await told).toEqual([4, 400, expect.stringContaining('context_length_exceeded') as string]);
    expect(order).toEqual(['200', '200', '200', 'long']);

    const gone = new AbortController();
    const left = fetch(`${baseUrl}/completions`, { ...init, signal: gone.signal }).catch(() => 'gone');
    await new Promise((resolve) => setTimeout(resolve, 300));
    const next = ask('completions', { ...one, prompt: Array(1000).fill(1), metadata: 'x'.repeat(20_000) });
    gone.abort();
    expect(await left).toBe('gone');
    expect((await next).status).toBe(200);
  });

  it('prepares long requests like short ones', async () => {
    const { ask } = await serving();
    const body = { ...one, seed: 1, temperature: 1, prompt: 'def add(a, b):', return_token_ids: true };
    const [short, long] = [
      await ask('completions', body),
      await ask('completions', { ...body, user: 'x'.repeat(20_000) }),
    ];
    expect(long.json.choices).toEqual(short.json.choices);
    const refused = await ask('completions', { ...body, top_p: 2, user: 'x'.repeat(20_000) });
    expect(refused).toMatchObject({ status: 400, json: { error: { param: 'top_p' } } });
  });
});
