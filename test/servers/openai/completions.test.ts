/**
 * Hunts answers that clients of OpenAI's completions would misread, and streams that differ from the answer in one
 * piece. Not asserted: the text of the policy's answers.
 */

import { describe, expect, it } from 'vitest';
import { textOffsets } from '../../../servers/openai/completions.ts';
import { starter, useStarterServer } from './starter-server.ts';
import type { Json } from './starter-server.ts';

const world = useStarterServer();
const { serving, taskPrompt, saying } = world;

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
    const direct = await world.engine.generate({
      policy: { dir: starter, version: 0 },
      cacheKey: 'd',
      noiseKey: 'seed 3/0',
      tokens: ids,
      sampling,
      stopTokenIds: world.tokenizer.stopTokenIds,
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
    const asText = await ask('completions', { ...body, prompt: world.tokenizer.decode(ids) });
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
    const direct = await world.engine.generate({
      policy: { dir: starter, version: 0 },
      cacheKey: 'd',
      noiseKey: 'seed 3/0',
      tokens: ids,
      sampling,
      stopTokenIds: world.tokenizer.stopTokenIds,
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
    expect(
      json.choices.map((choice) => world.tokenizer.decode(choice['prompt_token_ids'] as unknown as number[])),
    ).toEqual(['def a', 'def a', 'def b', 'def b']);
    expect(json.usage['prompt_tokens']).toBe(
      world.tokenizer.encode('def a').length + world.tokenizer.encode('def b').length,
    );
  });

  it('return the start of each token in the text, in characters, and never after its end', async () => {
    const said = 'é = "🙂🙂"\n    return é';
    const { ask, chunksOf } = await serving({ engine: saying(said) });
    const body = { model: 'starter', prompt: 'x', max_tokens: 400, temperature: 0, logprobs: 0 };
    type Logprobs = { tokens: string[]; text_offset: number[] };
    const logprobsOf = (json: Json) => json.choices[0]?.['logprobs'] as unknown as Logprobs;
    const length = world.tokenizer.encode(said).length;
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
    const usages = (chunks: Json[]) => new Set(chunks.map(({ usage }) => usage));
    expect(usages(streamed.slice(0, -1))).toEqual(new Set([null]));
    expect(usages(await chunksOf('completions', body))).toEqual(new Set([undefined]));
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
