/** Hunts chats that a client of OpenAI's API would misread, or that differ from Longhaul's own prompts. */

import { describe, expect, it } from 'vitest';
import { detectOffer } from '../../../endpoints/detect-offer.ts';
import { EndpointClient } from '../../../endpoints/endpoint-client.ts';
import type { Engine } from '../../../trainer/engine.ts';
import { resolveEndpoint } from '../../../workflows/rollout/resolve-policy.ts';
import { starter, tool, useStarterServer } from './starter-server.ts';

const world = useStarterServer();
const { serving, taskPrompt } = world;

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
    expect(chunks.every((chunk) => !('usage' in chunk))).toBe(true);
    const counted = await chunksOf('chat/completions', { ...body, stream_options: { include_usage: true } });
    expect(counted.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
    expect(counted.at(-1)).toMatchObject({ choices: [], usage: json.usage });
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

  it("gives tokens' bytes that are together the answer's, also where tokens are parts of a character", async () => {
    const said = 'é is 🙂\n';
    let begin: number | undefined;
    const engine: Engine = {
      generate: async ({ tokens, sampling: { maxTokens } }) => {
        begin ??= tokens.length;
        const next = world.tokenizer.encode(said).slice(tokens.length - begin, tokens.length - begin + maxTokens);
        const topLogprobs = next.map((token) => [{ token, logprob: -1 }]);
        return { tokens: next, logprobs: next.map(() => -1), topLogprobs, finishReason: 'length' };
      },
      update: () => Promise.reject(new Error('no')),
      close: async () => undefined,
    };
    const { ask } = await serving({ engine });
    const { json } = await ask('chat/completions', {
      model: 'starter',
      messages: [{ role: 'user', content: 'x' }],
      max_tokens: world.tokenizer.encode(said).length,
      logprobs: true,
      top_logprobs: 1,
    });
    const [choice] = json.choices as unknown as Array<{
      message: { content: string };
      logprobs: { content: Array<{ bytes: number[]; top_logprobs: Array<{ bytes: number[] }> }> };
    }>;
    const shown = choice!.logprobs.content;
    expect(choice!.message.content).toBe(said);
    expect(shown.some(({ bytes }) => bytes.length === 1 && bytes[0]! > 0x7f)).toBe(true);
    for (const all of [shown, shown.flatMap(({ top_logprobs: top }) => top)])
      expect(Buffer.from(all.flatMap(({ bytes }) => bytes))).toEqual(Buffer.from(said));
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
    expect(await detectOffer(endpoint, world.tokenizer.encode('Hello'), client, signal)).toEqual({
      mode: 'tokens',
      protocol: 'vllm',
      contextTokens: 1024,
    });
    const sampling = { temperature: 0, topP: 1, topK: 0, maxTokens: 2000 };
    await expect(
      client.sampleTokens(
        endpoint,
        'vllm',
        { tokens: taskPrompt().ids, sampling, stopTokenIds: world.tokenizer.stopTokenIds, seed: 1 },
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
