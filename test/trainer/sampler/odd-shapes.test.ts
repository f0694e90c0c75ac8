/**
 * Hunts shapes that the compiled decoder gets wrong. Its samples are compared with the trainer's forward pass, which
 * shares no code with it. Not asserted: speed. Of the graph decoder, only that broken weights leave nothing behind.
 */

import { describe, expect, it } from 'vitest';
import type { GenerateRequest, GenerateResult } from '../../../trainer/generate-request.ts';
import { Learner } from '../../../trainer/learner.ts';
import type { ModelConfig } from '../../../trainer/model/config.ts';
import { tokenBatch } from '../../../trainer/model/token-batch.ts';
import { InvalidRequest } from '../../../trainer/sampler/generation.ts';
import { graphDecoderKind } from '../../../trainer/sampler/pass/graph/graph-decoder.ts';
import { nativeDecoderKind } from '../../../trainer/sampler/pass/native/native-decoder.ts';
import { Sampler, type SamplerOptions } from '../../../trainer/sampler/sampler.ts';
import { randomIds, randomWeights, smallShape } from './random-policy.ts';

const base: ModelConfig = {
  ...smallShape,
  layers: 2,
  hiddenSize: 24,
  intermediateSize: 40,
  heads: 2,
  kvHeads: 1,
  headDim: 8,
  vocabSize: 61,
  maxPositions: 96,
};

const shapes: Record<string, ModelConfig> = {
  'one layer, one head, one number beside another': {
    ...base,
    layers: 1,
    heads: 1,
    kvHeads: 1,
    headDim: 2,
    hiddenSize: 3,
    intermediateSize: 5,
  },
  'as many key-value heads as heads': { ...base, heads: 3, kvHeads: 3, headDim: 6 },
  'seven heads that share one': { ...base, heads: 7, kvHeads: 1, headDim: 10, hiddenSize: 17 },
  'heads of 18, two groups of three': {
    ...base,
    heads: 6,
    kvHeads: 2,
    headDim: 18,
    hiddenSize: 33,
    intermediateSize: 31,
  },
  'heads of 34, untied': { ...base, headDim: 34, tiedEmbeddings: false, vocabSize: 47 },
  'a vocabulary of one more than a panel': { ...base, vocabSize: 17, tiedEmbeddings: false },
  'Qwen2: biases, no norms of heads': { ...base, family: 'qwen2', heads: 3, kvHeads: 3, headDim: 14, vocabSize: 130 },
  'Llama, heads of 20': { ...base, family: 'llama', heads: 4, kvHeads: 2, headDim: 20, hiddenSize: 80, vocabSize: 33 },
};

function samplerOf(
  config: ModelConfig,
  options: Partial<SamplerOptions> = {},
  weights = randomWeights(config, 7),
): Sampler {
  return new Sampler({
    kind: nativeDecoderKind(),
    admissionMs: 0,
    gatherMs: 0,
    load: async () => ({ config, weights, vocabulary: config.vocabSize }),
    ...options,
  });
}

const request = (
  name: number,
  tokens: readonly number[],
  maxTokens: number,
  more: Partial<GenerateRequest> = {},
): GenerateRequest => ({
  policy: { dir: 'one', version: 1 },
  cacheKey: `rollout ${name}`,
  tokens,
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens },
  stopTokenIds: [],
  noiseKey: `noise ${name}`,
  ...more,
});

function trainedLogprobs(learner: Learner, prompt: readonly number[], sampled: readonly number[]): Float32Array {
  const tokens = [...prompt, ...sampled];
  return learner.forward(tokenBatch([{ tokens, mask: tokens.map((_, i) => Number(i >= prompt.length)) }]), false)
    .logprobs;
}

function expectTrained(learner: Learner, prompt: readonly number[], { tokens, logprobs }: GenerateResult): void {
  const wanted = trainedLogprobs(learner, prompt, tokens);
  const off = logprobs.reduce((most, logprob, i) => Math.max(most, Math.abs(logprob - wanted[i]!)), 0);
  expect(off).toBeLessThan(2e-4);
}

describe.each(Object.entries(shapes))('%s', (_, config) => {
  it("has the trainer's log-probabilities, with prompts and answers that end at a block's end, before and after it", async () => {
    const [learner, sampler] = [new Learner(config, randomWeights(config, 7)), samplerOf(config)];
    const wishes = [
      [1, 1],
      [1, 15],
      [1, 16],
      [15, 1],
      [15, 2],
      [16, 1],
      [16, 16],
      [17, 15],
      [31, 1],
      [32, 33],
      [33, 31],
      [95, 1],
      [80, 40],
    ] as const;
    const prompts = wishes.map(([length], i) => randomIds(i, length, config.vocabSize));
    const together = await Promise.all(wishes.map(([, most], i) => sampler.generate(request(i, prompts[i]!, most))));
    for (const [i, result] of together.entries()) {
      expect(result.tokens).toHaveLength(Math.min(wishes[i]![1], 96 - prompts[i]!.length));
      expectTrained(learner, prompts[i]!, result);
      // The same again from the cache, and alone.
      expect(await sampler.generate(request(i, prompts[i]!, wishes[i]![1]))).toEqual(result);
    }
    await sampler.idle();
    sampler.dispose();
    learner.dispose();
  });
});

describe('a cache of the smallest size', () => {
  it('serves far more requests than it has blocks for, each as if it were alone, while others are aborted', async () => {
    const config = shapes['heads of 18, two groups of three']!;
    const cacheBytes = 4 * 2 * config.layers * config.kvHeads * 32 * 96;
    const [learner, sampler, roomy] = [
      new Learner(config, randomWeights(config, 7)),
      samplerOf(config, { cacheBytes, prefillTokens: 20 }),
      samplerOf(config),
    ];
    const shared = randomIds(99, 40, config.vocabSize);
    const prompts = Array.from({ length: 40 }, (__, i) => [
      ...shared.slice(0, (i * 7) % 41),
      ...randomIds(i, 1 + (i % 18), config.vocabSize),
    ]);
    const asked = prompts.map((prompt, i) => {
      const controller = new AbortController();
      const result = sampler.generate(request(i, prompt, 1 + (i % 36)), controller.signal);
      if (i % 3 === 0) setTimeout(() => controller.abort(new RangeError('given up')), i % 7);
      return result.catch((error: unknown) => error);
    });
    for (const [i, result] of (await Promise.all(asked)).entries()) {
      if (result instanceof Error) {
        expect(result.message).toBe('given up');
        expect(i % 3).toBe(0);
        continue;
      }
      expectTrained(learner, prompts[i]!, result as GenerateResult);
      expect(await roomy.generate(request(i, prompts[i]!, 1 + (i % 36)))).toEqual(result);
    }
    expect(sampler.stats()).toMatchObject({ active: 0, waiting: 0 });
    for (const one of [sampler, roomy]) {
      await one.idle();
      one.dispose();
    }
    learner.dispose();
  });
});

describe('weights that are NaN', () => {
  it.each([
    ['the compiled decoder', nativeDecoderKind, 96],
    ['the graph', graphDecoderKind, 128],
  ])(
    'fail their requests, and leave nothing in the blocks that the next policy gets, in %s',
    async (_, kindOf, positions) => {
      const config = shapes['as many key-value heads as heads']!;
      const [good, bad] = [randomWeights(config, 7), randomWeights(config, 7)];
      bad.get('model.layers.0.self_attn.v_proj.weight')!.data.fill(Number.NaN, 0, 40);
      const cacheBytes = 4 * 2 * config.layers * config.kvHeads * 16 * positions;
      const sampler = samplerOf(config, {
        kind: kindOf(),
        cacheBytes,
        load: async ({ dir }) => ({ config, weights: dir === 'bad' ? bad : good, vocabulary: config.vocabSize }),
      });
      const prompt = randomIds(1, 90, config.vocabSize);
      const fine = await sampler.generate(request(1, prompt.slice(0, 70), 20));
      for (const promptLogprobs of [false, true]) {
        await expect(
          sampler.generate(request(2, prompt, 5, { policy: { dir: 'bad', version: 2 }, promptLogprobs })),
        ).rejects.toThrow('finite');
        expect(await sampler.generate(request(1, prompt.slice(0, 70), 20))).toEqual(fine);
      }
      await sampler.idle();
      sampler.dispose();
    },
  );
});

it.each([
  [{ tokens: [] }, 'tokens'],
  [{ sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 0 } }, 'sampling.maxTokens'],
  [{ tokens: [3, 61] }, 'tokens'],
] as const)('a request with %j is refused, and the next is served', async (wrong, field) => {
  const sampler = samplerOf(base);
  const refused = await sampler.generate({ ...request(1, [1, 2], 3), ...wrong }).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(InvalidRequest);
  expect((refused as InvalidRequest).field).toBe(field);
  expect((await sampler.generate(request(1, [1, 2], 3))).tokens).toHaveLength(3);
  await sampler.idle();
  sampler.dispose();
});
