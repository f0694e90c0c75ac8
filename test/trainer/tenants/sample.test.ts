/**
 * Hunts samples that differ from what the Tinker API means: seeds that are not kept, a stop that is not wanted, a stop
 * token that is missing or doubled, scores at another temperature, an answer that is cut without a word.
 */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TinkerSample } from '../../../protocol/tinker.ts';
import { UserInputError } from '../../../protocol/user-input-error.ts';
import { type ModelConfig, modelConfigJson } from '../../../trainer/model/config.ts';
import { nativeDecoderKind } from '../../../trainer/sampler/pass/native/native-decoder.ts';
import { Sampler } from '../../../trainer/sampler/sampler.ts';
import { sampleFor } from '../../../trainer/tenants/sample.ts';
import { randomAdapter } from '../sampler/random-adapter.ts';
import { randomIds, randomWeights, smallShape } from '../sampler/random-policy.ts';

const config: ModelConfig = {
  ...smallShape,
  layers: 2,
  hiddenSize: 64,
  intermediateSize: 128,
  vocabSize: 40,
  eosTokenIds: [7],
};
const adapters = { one: randomAdapter(config, { seed: 1, rank: 4 }), two: randomAdapter(config, { seed: 2, rank: 8 }) };
let dir: string;
let engine: Sampler;

beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'longhaul-sample-'));
  await writeFile(path.join(dir, 'config.json'), JSON.stringify({ ...modelConfigJson(config), eos_token_id: 7 }));
  engine = new Sampler({
    maxContext: 96,
    kind: nativeDecoderKind(),
    load: () =>
      Promise.resolve({
        config,
        weights: randomWeights(config, 1),
        vocabulary: 40,
        decode: (ids) => String.fromCharCode(...ids.map((id) => 65 + id)),
      }),
    loadAdapter: async ({ dir: name }) => adapters[name as keyof typeof adapters],
  });
});
afterAll(async () => {
  await engine.idle();
  engine.dispose();
  await rm(dir, { recursive: true });
});

const wished = (more: Partial<TinkerSample> = {}): TinkerSample => ({
  prompt: Int32Array.from(randomIds(1, 30, 40)),
  count: 1,
  maxTokens: 16,
  temperature: 1,
  topP: 1,
  topK: 0,
  stop: [],
  seed: 5,
  promptLogprobs: false,
  topPrompt: 0,
  topSampled: 0,
  ...more,
});
const sample = (more?: Partial<TinkerSample>, adapter?: string) =>
  sampleFor(engine, { dir, version: 0 }, adapter === undefined ? undefined : { dir: adapter }, wished(more), 'tinker');
const last = <T>(values: ArrayLike<T>): T | undefined => values[values.length - 1];

describe('seeds', () => {
  it('give the same answers whatever else runs, each sample with noise of its own, the prompt computed once', async () => {
    const alone = await sample({ count: 6 }, 'one');
    expect(new Set(alone.sequences.map(({ tokens }) => tokens.join())).size).toBe(6);
    const [again, fewer, other] = await Promise.all([
      sample({ count: 6 }, 'one'),
      sample({ count: 2 }, 'one'),
      sample({ count: 6, seed: 6 }, 'one'),
      ...['one', 'two', undefined].map((adapter) => sample({ count: 4, seed: 9 }, adapter)),
    ]);
    expect(again).toEqual(alone);
    expect(fewer?.sequences).toEqual(alone.sequences.slice(0, 2));
    expect(other?.sequences).not.toEqual(alone.sequences);
    const before = engine.stats();
    await sample({ count: 8, prompt: Int32Array.from(randomIds(77, 33, 40)) }, 'two');
    // All but the last token of the prompt; it is computed with each answer's first.
    expect(engine.stats().cachedTokens - before.cachedTokens).toBeGreaterThanOrEqual(7 * 32);
  });

  it('must be whole numbers', async () => {
    await expect(sample({ seed: 0.5 })).rejects.toThrow(UserInputError);
    await expect(sample({ count: 0 })).rejects.toThrow('num_samples: 0');
  });
});

describe('an answer ends', () => {
  it("at the policy's end token, which it has once; never, with an empty list; at other ids and texts", async () => {
    const many = { count: 20, maxTokens: 60 };
    const { stop: _, ...byDefault } = wished(many);
    const ended = await sampleFor(engine, { dir, version: 0 }, { dir: 'one' }, byDefault, 'tinker');
    expect(new Set(ended.sequences.map(({ finish }) => finish))).toContain('stop');
    for (const { tokens, finish } of ended.sequences) {
      expect([...tokens].indexOf(7)).toBe(finish === 'stop' ? tokens.length - 1 : -1);
      if (finish === 'length') expect(tokens).toHaveLength(60);
    }
    const endless = await sample(many, 'one');
    expect(endless.sequences.every(({ tokens, finish }) => tokens.length === 60 && finish === 'length')).toBe(true);
    expect(endless.sequences.some(({ tokens }) => tokens.includes(7))).toBe(true);
    // Until it stops, an answer is the same.
    for (const [i, { tokens }] of ended.sequences.entries())
      expect(endless.sequences[i]?.tokens.slice(0, tokens.length)).toEqual(tokens);
    const texts = await sample({ ...many, stop: ['B', 'CD'] }, 'one');
    const stopped = texts.sequences.filter(({ finish }) => finish === 'stop');
    expect(stopped.length).toBeGreaterThan(0);
    for (const { tokens } of stopped)
      expect(last(tokens) === 1 || (last(tokens) === 3 && tokens.at(-2) === 2)).toBe(true);
    const ids = await sample({ ...many, stop: [3, 4] }, 'one');
    for (const { tokens, finish } of ids.sequences) if (finish === 'stop') expect([3, 4]).toContain(last(tokens));
  });

  it('or is refused, if prompt and answer exceed the context', async () => {
    const whole = await sample({ maxTokens: 66 }, 'one');
    expect(whole.sequences[0]).toMatchObject({ finish: 'length' });
    expect(whole.sequences[0]?.tokens).toHaveLength(66);
    for (const more of [{ maxTokens: 67 }, { prompt: new Int32Array(96) }]) {
      const refused = await sample(more, 'one').catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(UserInputError);
      expect(String(refused)).toContain("Prompt length plus max_tokens exceeds the model's context window");
    }
    await expect(sample({ topP: 0 })).rejects.toThrow('sampling_params.top_p: 0 cannot be used; a number in (0, 1]');
    await expect(sample({ prompt: Int32Array.of(1, 40) })).rejects.toThrow(
      'prompt: 40 cannot be used; ids from 0 to 39',
    );
    await expect(sample({ topPrompt: 65 })).rejects.toThrow('topk_prompt_logprobs');
  });
});

describe('log-probabilities', () => {
  it('of the prompt begin with NaN, and are those of the same tokens when they are sampled', async () => {
    const { sequences, promptLogprobs: before } = await sample({ promptLogprobs: true }, 'two');
    expect(before).toHaveLength(30);
    expect(before?.[0]).toBeNaN();
    const [answer] = sequences;
    const prompt = Int32Array.from([...wished().prompt, ...(answer?.tokens ?? [])]);
    const scored = await sample({ prompt, promptLogprobs: true, maxTokens: 1 }, 'two');
    expect(scored.promptLogprobs?.slice(1)).toEqual(
      Float32Array.from([...(before?.slice(1) ?? []), ...(answer?.logprobs ?? [])]),
    );
    const base = await sample({ prompt, promptLogprobs: true, maxTokens: 1 });
    expect(base.promptLogprobs?.slice(1)).not.toEqual(scored.promptLogprobs?.slice(1));
  });

  it("of sampled tokens are the drawing distribution's at any temperature, those of the prompt at 1", async () => {
    const plain = await sample({ promptLogprobs: true, topPrompt: 2 });
    for (const temperature of [0, 0.5, 2]) {
      const wanted = { temperature, topK: 3, topP: 0.9, topSampled: 40 };
      const found = await sample({ ...wanted, promptLogprobs: true, topPrompt: 2 });
      expect(found.promptLogprobs).toEqual(plain.promptLogprobs);
      expect(found.topPrompt).toEqual(plain.topPrompt);
      const { sequences } = await sample(wanted);
      expect(found.sequences).toEqual(sequences);
      const [{ tokens, logprobs, top } = { tokens: [], logprobs: [], top: [] }] = sequences;
      // Before the filters: all of the vocabulary has a probability.
      for (const [i, list] of (top ?? []).entries()) {
        expect(list.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0)).toBeCloseTo(1, 5);
        expect(list.find(({ token }) => token === tokens[i])?.logprob).toBe(logprobs[i]);
        expect(list.slice(0, 3).map(({ token }) => token)).toContain(tokens[i]);
      }
    }
  });

  it('of likeliest tokens have the wanted lengths, and are left out where they are not wanted', async () => {
    const { sequences, topPrompt, promptLogprobs } = await sample({ count: 2, topPrompt: 5, topSampled: 2 }, 'one');
    expect(promptLogprobs).toBeUndefined();
    expect(topPrompt?.map((list) => list.length)).toEqual([0, ...Array.from({ length: 29 }, () => 5)]);
    for (const { top, tokens } of sequences) expect(top?.map((list) => list.length)).toEqual([...tokens].map(() => 2));
    const plain = await sample({ count: 2 }, 'one');
    expect(plain.topPrompt).toBeUndefined();
    expect(plain.sequences.map(({ top }) => top)).toEqual([undefined, undefined]);
    expect(sequences.map(({ tokens, logprobs }) => ({ tokens, logprobs }))).toEqual(
      plain.sequences.map(({ tokens, logprobs }) => ({ tokens, logprobs })),
    );
  });
});

it('a failed sample ends the others', async () => {
  const controller = new AbortController();
  const pending = sampleFor(
    engine,
    { dir, version: 0 },
    undefined,
    wished({ count: 3, maxTokens: 60 }),
    'tinker',
    controller.signal,
  );
  controller.abort(new Error('not wanted any more'));
  await expect(pending).rejects.toThrow('not wanted any more');
  await engine.idle();
  expect(engine.stats()).toMatchObject({ active: 0, waiting: 0 });
});
