import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { ModelConfig } from '../../../trainer/model/config.ts';
import { type BatchRow, planBatch } from '../../../trainer/sampler/pass/batch-plan.ts';
import { DecoderSession } from '../../../trainer/sampler/pass/decoder-session.ts';
import { loadPolicy } from '../../../trainer/sampler/policy-loader.ts';
import { SamplerModel } from '../../../trainer/sampler/pass/sampler-model.ts';
import { Sampler } from '../../../trainer/sampler/sampler.ts';
import { expected, expectedTensor, vectorsDir } from './vectors.ts';

const { config, weights, vocabulary } = await loadPolicy(vectorsDir);
const tolerance = 2e-4;

function bench(shape: ModelConfig, alwaysShift: boolean): (row: Omit<BatchRow, 'slot'>) => Float32Array {
  const layout = { slots: 1, pagesPerSlot: 1, kvHeads: shape.kvHeads, group: shape.heads / shape.kvHeads };
  const model = new SamplerModel(shape, weights, { positions: 128, alwaysShift });
  const decoder = new DecoderSession(shape, 128, layout);
  afterAll(() => {
    decoder.dispose();
    model.dispose();
  });
  return (row) =>
    decoder.forward(model, planBatch(layout, [{ slot: 0, ...row }]));
}

function farthest(a: Float32Array, b: Float32Array): number {
  return b.reduce((most, value, i) => Math.max(most, Math.abs(value - (a[i] ?? NaN))), 0);
}

describe.each([{ alwaysShift: false }, { alwaysShift: true }])('logits with %o', ({ alwaysShift }) => {
  const logitsOf = bench(config, alwaysShift);

  it.each(expected.forward)(
    'equal those of transformers, token by token and at once: $logits_tensor',
    async (vector) => {
      const { columns, data } = await expectedTensor(vector.logits_tensor);
      const tokens = vector.input_ids;
      tokens.forEach((_, from) => {
        const wanted = data.subarray(from * columns, (from + 1) * columns);
        expect(farthest(logitsOf({ tokens, from, count: 1 }), wanted)).toBeLessThan(tolerance);
      });
      const last = data.subarray((tokens.length - 1) * columns, tokens.length * columns);
      expect(farthest(logitsOf({ tokens, from: 0, count: tokens.length }), last)).toBeLessThan(tolerance);
    },
  );
});

describe('greedy decoding', () => {
  const sampler = new Sampler({ load: ({ dir }) => loadPolicy(dir) });
  afterAll(() => sampler.dispose());

  it('gives the tokens and log-probabilities of transformers, all prompts at once', async () => {
    const results = await Promise.all(
      expected.greedy.map(({ prompt_ids, output_ids }, i) =>
        sampler.generate({
          policy: { dir: vectorsDir, version: 0 },
          cacheKey: `greedy ${i}`,
          tokens: prompt_ids,
          sampling: { temperature: 0, topP: 1, topK: 0, maxTokens: output_ids.length },
          stopTokenIds: [],
          noiseKey: '',
        }),
      ),
    );
    results.forEach((result, i) => {
      const wanted = expected.greedy[i];
      expect(result.tokens).toEqual(wanted?.output_ids);
      expect(farthest(Float32Array.from(result.logprobs), Float32Array.from(wanted?.logprobs ?? []))).toBeLessThan(
        tolerance,
      );
      expect(result.finishReason).toBe('length');
    });
  });

  it('knows how many ids the tokenizer has', async () => {
    const json = JSON.parse(await readFile(path.join(vectorsDir, 'expected.json'), 'utf8')) as {
      tokenizer: { vocab_size: number };
    };
    expect(vocabulary).toBe(json.tokenizer.vocab_size);
    expect(vocabulary).toBeLessThan(config.vocabSize);
  });
});
