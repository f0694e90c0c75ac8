/**
 * Hunts requests that are misunderstood, callers that are admitted without the key, and a server that cuts off running
 * requests.
 */

import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Engine } from '../../../trainer/engine.ts';
import { useStarterServer } from './starter-server.ts';

const world = useStarterServer();
const { serving } = world;

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
    ['of no tokens without the prompt', 'completions', { prompt: 'x', max_tokens: 0 }, 'max_tokens'],
    [
      'of a format',
      'chat/completions',
      { messages: [{ role: 'user', content: 'x' }], response_format: { type: 'json_object' } },
      'response_format.type',
    ],
    [
      'to make a call of no tool',
      'chat/completions',
      { messages: [{ role: 'user', content: 'x' }], tool_choice: 'required' },
      'tool_choice',
    ],
    [
      'of a picture',
      'chat/completions',
      { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] },
      'messages.0.content.0.type',
    ],
    ['of too many answers', 'completions', { prompt: ['a', 'b'], n: 64 }, 'n'],
    ['of nothing', 'completions', { prompt: '' }, 'prompt'],
    ['of a stop token that there is not', 'completions', { prompt: 'x', stop_token_ids: [1, 1e9] }, 'stop_token_ids.1'],
    [
      'of such a stop token',
      'chat/completions',
      { messages: [{ role: 'user', content: 'x' }], stop_token_ids: [1e9] },
      'stop_token_ids.0',
    ],
    [
      "of a stream's usage, without a stream",
      'completions',
      { prompt: 'x', stream_options: { include_usage: true } },
      'stream_options',
    ],
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

describe("a caller of Anthropic's API, and one that compresses,", () => {
  const version = { 'anthropic-version': '2023-06-01' };

  it("is refused in its shape on the paths that both APIs have and on unknown ones, and in OpenAI's on OpenAI's", async () => {
    const { ask } = await serving();
    const shaped = {
      type: 'error',
      error: { type: expect.stringMatching(/_error$/u) as string },
      request_id: expect.any(String) as string,
    };
    expect(await ask('models/nope', undefined, version)).toMatchObject({
      status: 404,
      json: { ...shaped, error: { type: 'not_found_error' } },
    });
    for (const path of ['nowhere', '/nowhere', 'messages/batches', 'messagesfoo'])
      expect(await ask(path, undefined, version)).toMatchObject({ status: 404, json: shaped });
    expect(await ask('models', {}, version)).toMatchObject({ status: 405, json: shaped });
    for (const [path, headers] of [
      ['chat/completions', version],
      ['models/nope', {}],
      ['nowhere', {}],
    ] as const) {
      const { json } = await ask(path, undefined, headers);
      expect(json).toMatchObject({ error: { type: 'invalid_request_error' } });
      expect(json).not.toHaveProperty('type');
    }
  });

  it('has its version checked on all paths of that API', async () => {
    const { ask } = await serving();
    for (const path of ['models', 'models/starter', 'messages'])
      expect(await ask(path, path === 'messages' ? {} : undefined, { 'anthropic-version': '1999' })).toMatchObject({
        status: 400,
        json: { type: 'error', error: { message: expect.stringContaining('1999 is not known here') as string } },
      });
    expect(await ask('models', undefined, version)).toMatchObject({ status: 200, json: { first_id: 'starter' } });
    expect(await ask('models/starter', undefined, version)).toMatchObject({ status: 200, json: { type: 'model' } });
  });

  it('is told that compressed bodies are not read, on every path that takes one', async () => {
    const { ask } = await serving();
    for (const path of ['completions', 'chat/completions', 'responses', 'messages', 'messages/count_tokens'])
      for (const encoding of ['gzip', 'GZIP, identity', 'br']) {
        const { status, headers, json } = await ask(path, { model: 'starter' }, { 'content-encoding': encoding });
        expect([status, headers.get('accept-encoding')]).toEqual([415, 'identity']);
        expect(json.error['message']).toContain('content-encoding');
      }
    const body = { model: 'starter', prompt: 'x', max_tokens: 1 };
    expect((await ask('completions', body, { 'content-encoding': 'Identity' })).status).toBe(200);
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
          tokens: [world.tokenizer.encode('a')[0]!],
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
    const closing = world.server!.close(20_000);
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
    await world.server!.close(100);
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
    const next = ask('completions', { ...one, prompt: Array(1000).fill(1), user: 'x'.repeat(20_000) });
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
