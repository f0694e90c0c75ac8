/**
 * Hunts undocumented behaviour: parses recorded answers of real servers. The files name the server and its version; the
 * ids are those of `examples/starter`.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';

import { detectOffer } from '../../endpoints/detect-offer.ts';
import type { Endpoint } from '../../protocol/endpoint.ts';
import { EndpointClient } from '../../endpoints/endpoint-client.ts';
import type { TokenCall } from '../../endpoints/tokens/token-call.ts';
import { resolveEndpoint } from '../../workflows/rollout/resolve-policy.ts';
import { type Answer, type LoopbackServer, startLoopback } from '../support/endpoint/http-server.ts';

let server: LoopbackServer | undefined;
afterEach(() => server?.close());
const { signal } = new AbortController();

interface Recorded {
  readonly answers: Readonly<Record<string, { readonly status: number; readonly body: Record<string, unknown> }>>;
}

/** An endpoint that returns the recorded answers with these names, in order. */
function recorded(file: string) {
  const { answers } = JSON.parse(readFileSync(join(import.meta.dirname, 'recorded', file), 'utf8')) as Recorded;
  return async (names: readonly string[], settings: Partial<Endpoint> = {}) => {
    let next = 0;
    server = await startLoopback((): Answer => answers[names[next++] ?? ''] ?? { status: 500, body: {} });
    const endpoint = resolveEndpoint(
      { baseUrl: server.baseUrl, model: 'starter', maxTries: 1, ...settings },
      'endpoint',
      (field) => {
        throw new Error(field);
      },
    );
    return { endpoint, client: new EndpointClient({}), server };
  };
}

const callOf = (tokens: readonly number[], maxTokens: number): TokenCall => ({
  tokens,
  sampling: { temperature: 0, topP: 1, topK: 0, maxTokens },
  stopTokenIds: [499],
  seed: 7,
});
const prompt = (length: number): number[] => Array.from({ length }, (_, i) => 10 + ((i * 7) % 400));

describe('vLLM 0.32.0', () => {
  const answering = recorded('vllm-0.32.0.json');

  it('is recognised by its list of models, with its context, and returns ids', async () => {
    const { endpoint, client } = await answering(['models', 'greedy'], { tokenizer: '/any' });
    expect(await detectOffer(endpoint, prompt(12), client, signal)).toEqual({
      mode: 'tokens',
      protocol: 'vllm',
      contextTokens: 1024,
    });
  });

  it('returns ids with their log-probabilities, with the stop token', async () => {
    const { endpoint, client } = await answering(['greedy']);
    const { tokens, logprobs, finish } = await client.sampleTokens(endpoint, 'vllm', callOf(prompt(12), 8), signal);
    expect(tokens).toEqual([315, 52, 52, 52, 508, 499]);
    expect(logprobs?.[0]).toBeCloseTo(-0.2034, 4);
    expect([logprobs?.length, finish]).toEqual([6, 'stop']);
  });

  it.each([
    ['a prompt that is too long', 'too-long', 1100],
    ['a prompt as long as the context, for which it only reports that no tokens remain', 'exactly-full', 1024],
  ])('has a context that is full: %s', async (_, name, length) => {
    const { endpoint, client } = await answering([name]);
    await expect(client.sampleTokens(endpoint, 'vllm', callOf(prompt(length), 8), signal)).rejects.toMatchObject({
      kind: 'context',
    });
  });

  it('gets a smaller request if the first exceeded its whole context', async () => {
    const { endpoint, client, server: asked } = await answering(['too-many', 'greedy']);
    expect((await client.sampleTokens(endpoint, 'vllm', callOf(prompt(12), 2000), signal)).tokens).toHaveLength(6);
    expect(asked.asked[1]?.body).toMatchObject({ max_tokens: 1012 });
  });

  it('gets a chat request for its whole context in that case: it returns what the prompt leaves room for', async () => {
    const { endpoint, client, server: asked } = await answering(['too-many', 'chat-tools'], { mode: 'chat' });
    const call = {
      messages: [{ role: 'user', content: 'Hello' }],
      tools: [],
      sampling: { temperature: 0, topP: 1, topK: 0, maxTokens: 2000 },
    };
    const { turn, usage } = await client.chat(endpoint, call, signal);
    expect(asked.asked[1]?.body).toMatchObject({ max_tokens: 1024 });
    expect(turn.toolCalls).toEqual([
      { id: 'chatcmpl-tool-a6eebf4698bafe13', name: 'search', arguments: '{"query": "def foti"}' },
    ]);
    expect(usage).toEqual({ promptTokens: 7, completionTokens: 6 });
  });

  it.each([
    ['wrong-key', 'auth'],
    ['unknown-model', 'unknown-model'],
  ])('rejects with %s, which is recognised', async (name, kind) => {
    const { endpoint, client } = await answering([name]);
    await expect(client.sampleTokens(endpoint, 'vllm', callOf(prompt(12), 8), signal)).rejects.toMatchObject({ kind });
  });
});

describe('transformers serve 5.19.0', () => {
  const answering = recorded('transformers-serve-5.19.0.json');
  const call = {
    messages: [{ role: 'user', content: 'Hello' }],
    tools: [],
    sampling: { temperature: 0, topP: 1, topK: 0, maxTokens: 16 },
  };

  it('answers in chat; calls of a model whose format it does not support stay text', async () => {
    const { endpoint, client } = await answering(['chat-swe'], { mode: 'chat' });
    const { turn, finish, usage } = await client.chat(endpoint, call, signal);
    expect(turn).toEqual({
      content: '<|assistant|><function=search>\n<parameter=query>def rano</parameter>\n</function>',
      toolCalls: [],
    });
    expect([finish, usage]).toEqual(['stop', { promptTokens: 17, completionTokens: 6 }]);
  });

  it('with one model rejects another one with its own status, which is recognised', async () => {
    const { endpoint, client } = await answering(['chat-unknown-model'], { mode: 'chat' });
    await expect(client.chat(endpoint, call, signal)).rejects.toMatchObject({ kind: 'unknown-model' });
  });
});
