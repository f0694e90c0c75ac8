/**
 * Properties of any policy and any data: batch composition changes no row; a batch equals its micro-batches; the cache,
 * and merging an adapter, change no result; loading returns what was saved. The seed is fixed; a failure names its
 * example.
 */

import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { microBatches } from '../../trainer/data/batching.ts';
import { Learner } from '../../trainer/learner.ts';
import { adapterJson } from '../../trainer/lora/adapter-config.ts';
import type { AdapterWeights } from '../../trainer/lora/adapter-layout.ts';
import { LORA_TARGETS } from '../../protocol/algorithm.ts';
import { newAdapter } from '../../trainer/lora/new-adapter.ts';
import { type ModelConfig, modelConfigJson, parseModelConfig } from '../../trainer/model/config.ts';
import { Policy } from '../../trainer/model/policy.ts';
import { readSafetensors, writeSafetensors } from '../../trainer/model/safetensors.ts';
import { batchOf, packedBatch } from '../../trainer/model/packed-batch.ts';
import { type TokenSequence, tokenBatch } from '../../trainer/model/token-batch.ts';
import type { Weights } from '../../trainer/model/weights.ts';
import { Sampler } from '../../trainer/sampler/sampler.ts';
import { inScratch, smallConfig } from './tiny-policy.ts';
import { randomWeights } from './sampler/random-policy.ts';

const few = { numRuns: 12, seed: 5 };
const tolerance = 1e-4;

const llama3 = { type: 'llama3', factor: 4, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPositions: 64 } as const;

/** Any of the three families, small. */
const anyConfig: fc.Arbitrary<ModelConfig> = fc
  .record({
    family: fc.constantFrom('qwen3' as const, 'qwen2' as const, 'llama' as const),
    layers: fc.integer({ min: 1, max: 2 }),
    kvHeads: fc.constantFrom(1, 2),
    group: fc.integer({ min: 1, max: 3 }),
    headDim: fc.constantFrom(6, 8, 10),
    hiddenSize: fc.constantFrom(24, 32),
    intermediateSize: fc.constantFrom(40, 48),
    tiedEmbeddings: fc.boolean(),
    scaled: fc.boolean(),
  })
  .map(({ group, scaled, ...shape }) => ({
    ...smallConfig,
    vocabSize: 96,
    ...shape,
    heads: shape.kvHeads * group,
    ...(scaled ? { ropeScaling: llama3 } : {}),
    eosTokenIds: [],
  }));

const anySequence: fc.Arbitrary<TokenSequence> = fc
  .array(fc.record({ token: fc.nat({ max: 95 }), counts: fc.boolean() }), { minLength: 2, maxLength: 40 })
  .map((items) => ({
    tokens: items.map(({ token }) => token),
    mask: items.map(({ counts }, i) => (counts || i === 1 ? 1 : 0)),
  }));

const anyBatch = fc.array(anySequence, { minLength: 2, maxLength: 5 });

/** Short sequences, and a long one with several blocks of length and several chunks of attention. */
const anyMixedBatch: fc.Arbitrary<TokenSequence[]> = fc
  .tuple(anyBatch, fc.integer({ min: 100, max: 300 }))
  .map(([batch, length]) => [
    ...batch,
    { tokens: Array.from({ length }, (_, i) => (i * 37) % 96), mask: Array.from({ length }, (_, i) => i % 3) },
    ...batch.slice(1),
  ]);

const farthest = (a: Float32Array, b: Float32Array): number =>
  b.reduce((most, x, i) => Math.max(most, Math.abs(x - (a[i] ?? NaN))), 0);
const largest = (values: Float32Array): number => values.reduce((most, x) => Math.max(most, Math.abs(x)), 0);

function gradientOf(
  config: ModelConfig,
  weights: Weights,
  batches: ReadonlyArray<readonly TokenSequence[]>,
  how: { packing?: boolean; gradientCheckpointing?: boolean } = {},
): Float32Array {
  const learner = new Learner(config, weights);
  learner.gradientCheckpointing = how.gradientCheckpointing ?? false;
  for (const batch of batches)
    learner.forwardBackward(batchOf(batch, how), false, ({ logprobs }) => new Float32Array(logprobs.length).fill(-1));
  const flat = learner.gradients.flatten(learner.policy);
  const data = Float32Array.from(flat.dataSync());
  flat.dispose();
  learner.dispose();
  return data;
}

function anyAdapter(config: ModelConfig, seed: number): AdapterWeights {
  const fresh = newAdapter(config, { rank: 3, alpha: 5, targetModules: [...LORA_TARGETS] }, '/base', seed);
  const tensors = new Map(
    [...fresh.tensors].map(([name, { shape, data }], i) => [
      name,
      { shape, data: data.map((x, j) => x + 0.1 * Math.sin(seed + 7 * i + j)) },
    ]),
  );
  return { json: fresh.json, tensors };
}

describe('training', () => {
  test('a row with other rows and padding has the same log-probabilities as alone', () => {
    fc.assert(
      fc.property(anyConfig, anyBatch, fc.nat(), (config, batch, seed) => {
        const learner = new Learner(config, randomWeights(config, seed));
        const together = learner.forward(tokenBatch(batch), false).logprobs;
        const alone = Float32Array.from(
          batch.flatMap((one) => [...learner.forward(tokenBatch([one]), false).logprobs]),
        );
        learner.dispose();
        expect(together).toHaveLength(alone.length);
        expect(farthest(together, alone)).toBeLessThan(tolerance);
      }),
      few,
    );
  });

  test('the gradient summed over micro-batches equals that of one batch', () => {
    fc.assert(
      fc.property(anyConfig, anyBatch, fc.nat(), fc.integer({ min: 1, max: 120 }), (config, batch, seed, budget) => {
        const weights = randomWeights(config, seed);
        const whole = gradientOf(config, weights, [batch]);
        expect(
          farthest(gradientOf(config, weights, microBatches(batch, { microBatchTokens: budget })), whole),
        ).toBeLessThan(tolerance * largest(whole));
      }),
      few,
    );
  });

  test('packed sequences have the log-probabilities, entropies and gradient of padded ones', () => {
    fc.assert(
      fc.property(anyConfig, anyMixedBatch, fc.nat(), (config, batch, seed) => {
        const weights = randomWeights(config, seed);
        const learner = new Learner(config, weights);
        const [packed, padded] = [packedBatch, tokenBatch].map((make) => learner.forward(make(batch), true));
        learner.dispose();
        expect(packed!.logprobs).toHaveLength(padded!.logprobs.length);
        expect(farthest(packed!.logprobs, padded!.logprobs)).toBeLessThan(tolerance);
        expect(farthest(packed!.entropies!, padded!.entropies!)).toBeLessThan(tolerance);
        const whole = gradientOf(config, weights, [batch]);
        expect(farthest(gradientOf(config, weights, [batch], { packing: true }), whole)).toBeLessThan(
          tolerance * largest(whole),
        );
      }),
      few,
    );
  });

  test('gradient checkpointing gives the same bits, padded and packed', () => {
    fc.assert(
      fc.property(anyConfig, anyMixedBatch, fc.nat(), fc.boolean(), (config, batch, seed, packing) => {
        const weights = randomWeights(config, seed);
        const [kept, again] = [false, true].map((gradientCheckpointing) =>
          gradientOf(config, weights, [batch], { packing, gradientCheckpointing }),
        );
        expect(again).toEqual(kept);
      }),
      few,
    );
  });

  test('an adapter with its base computes the same as the merged weights', () => {
    fc.assert(
      fc.property(anyConfig, anyBatch, fc.nat(), (config, batch, seed) => {
        const [weights, adapter] = [randomWeights(config, seed), anyAdapter(config, seed % 100)];
        const [policy, beside] = [new Policy(config, weights, adapter), new Learner(config, weights, adapter)];
        const merged = new Learner(config, policy.merged());
        const [a, b] = [beside, merged].map((learner) => learner.forward(tokenBatch(batch), false).logprobs) as [
          Float32Array,
          Float32Array,
        ];
        for (const one of [policy, beside, merged]) one.dispose();
        // The same products of the same numbers: no tolerance is needed.
        expect(a).toEqual(b);
      }),
      few,
    );
  });
});

test('micro-batches hold every sequence once, and only one of a single sequence may exceed the budget', () => {
  fc.assert(
    fc.property(fc.array(anySequence, { maxLength: 20 }), fc.integer({ min: 1, max: 200 }), (sequences, budget) => {
      for (const packing of [false, true]) checkBudget(sequences, budget, packing);
    }),
    { numRuns: 200, seed: 2 },
  );
});

function checkBudget(sequences: readonly TokenSequence[], budget: number, packing: boolean): void {
  const batches = microBatches(sequences, { microBatchTokens: budget, packing });
  expect(new Set(batches.flat())).toEqual(new Set(sequences));
  expect(batches.flat()).toHaveLength(sequences.length);
  for (const batch of batches)
    expect(batch.length === 1 || batchOf(batch, { packing }).ids.length <= budget).toBe(true);
}

test('sampling: neither the cache nor concurrent requests change a bit', async () => {
  const request = (config: number, tokens: readonly number[], key: string) => ({
    policy: { dir: String(config), version: 0 },
    cacheKey: key,
    tokens,
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 6 },
    stopTokenIds: [],
    noiseKey: 'noise',
  });
  await fc.assert(
    fc.asyncProperty(
      anyConfig,
      fc.array(fc.nat({ max: 95 }), { minLength: 20, maxLength: 160 }),
      fc.nat(),
      fc.integer({ min: 1, max: 19 }),
      async (config, tokens, seed, cut) => {
        const weights = randomWeights(config, seed);
        const load = async () => ({ config, weights, vocabulary: config.vocabSize });
        const sampler = new Sampler({ load, admissionMs: 1, gatherMs: 1, maxRows: 8, maxContext: 256 });
        const fresh = await sampler.generate(request(0, tokens, 'fresh'));
        await sampler.generate(request(0, tokens.slice(0, cut), 'again'));
        const among = [
          request(0, tokens, 'again'),
          ...[5, 9, 14].map((from) => request(0, tokens.slice(from), `other ${from}`)),
        ];
        const [again] = await Promise.all(among.map((one) => sampler.generate(one)));
        sampler.dispose();
        expect(again).toEqual(fresh);
      },
    ),
    { numRuns: 6, seed: 3 },
  );
});

test('written tensors are read with the same values, whatever these are', () =>
  inScratch(async (dir) => {
    const tensor = fc.record({
      rows: fc.nat({ max: 4 }),
      columns: fc.integer({ min: 1, max: 5 }),
      values: fc.float32Array({ minLength: 20, maxLength: 20 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(fc.stringMatching(/^[a-z.0-9]{1,12}$/), tensor, { minKeys: 1, maxKeys: 4 }),
        async (given) => {
          const tensors = new Map(
            Object.entries(given).map(([name, { rows, columns, values }]) => [
              name,
              { shape: [rows, columns], data: values.slice(0, rows * columns) },
            ]),
          );
          const file = path.join(dir, 'x.safetensors');
          await writeSafetensors(file, tensors);
          const found = await readSafetensors(file);
          expect([...found.keys()].sort()).toEqual([...tensors.keys()].sort());
          for (const [name, { shape, data }] of tensors) {
            expect(found.get(name)?.shape).toEqual(shape);
            expect(new Uint32Array(Float32Array.from(found.get(name)!.data).buffer)).toEqual(
              new Uint32Array(Float32Array.from(data).buffer),
            );
          }
        },
      ),
      { numRuns: 40, seed: 4 },
    );
  }));

test('a written configuration is read unchanged', () => {
  fc.assert(
    fc.property(anyConfig, (config) => {
      expect(parseModelConfig(modelConfigJson(config))).toEqual(config);
    }),
    { numRuns: 100, seed: 6 },
  );
});

test('a written adapter is read unchanged', () =>
  inScratch(async (dir) => {
    await fc.assert(
      fc.asyncProperty(anyConfig, fc.nat({ max: 99 }), async (config, seed) => {
        const adapter = anyAdapter(config, seed);
        const policy = new Policy(config, randomWeights(config, seed), adapter);
        const downloaded = policy.adapter!.download();
        policy.dispose();
        const file = path.join(dir, 'a.safetensors');
        await writeSafetensors(file, downloaded);
        const found = await readSafetensors(file);
        expect([...found.keys()].sort()).toEqual([...adapter.tensors.keys()].sort());
        for (const [name, { data }] of adapter.tensors) expect(found.get(name)?.data).toEqual(data);
        expect(adapter.json).toEqual(adapterJson({ rank: 3, alpha: 5, targetModules: [...LORA_TARGETS] }, '/base'));
      }),
      few,
    );
  }));
