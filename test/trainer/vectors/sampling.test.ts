/** Greedy decoding and the sampling filters against Hugging Face transformers. */

import { afterAll, describe, expect, test } from 'vitest';
import { loadPolicy } from '../../../trainer/sampler/policy-loader.ts';
import { filterWeights } from '../../../trainer/sampler/sample-token.ts';
import { Sampler } from '../../../trainer/sampler/sampler.ts';
import { loadTokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';
import { type Expected, expectClose, expectedTensors, models } from './model-folders.ts';

const tolerance = 2e-4;

async function filteredLogits(dir: string, { sampling_filters: filters }: Expected): Promise<Float32Array> {
  const { columns, data } = (await expectedTensors(dir))(filters.logits_tensor);
  const rows = data.length / columns;
  const row = filters.position < 0 ? rows + filters.position : filters.position;
  return data.subarray(row * columns, (row + 1) * columns);
}

describe.each(models)('$file', ({ dir, expected }) => {
  const sampler = new Sampler({ load: (policy) => loadPolicy(policy.dir) });
  afterAll(() => sampler.dispose());

  test('greedy: tokens and log-probabilities, all prompts at once', async () => {
    const tokenizer = await loadTokenizer(dir);
    const results = await Promise.all(
      expected.greedy.map(({ prompt_ids, output_ids }, i) =>
        sampler.generate({
          policy: { dir, version: 0 },
          cacheKey: `greedy ${i}`,
          tokens: prompt_ids,
          sampling: { temperature: 0, topP: 1, topK: 0, maxTokens: output_ids.length },
          stopTokenIds: [],
          noiseKey: '',
        }),
      ),
    );
    for (const [i, want] of expected.greedy.entries()) {
      expect(results[i]?.tokens, `greedy[${i}].output_ids`).toEqual(want.output_ids);
      expectClose(results[i]?.logprobs ?? [], want.logprobs, tolerance, `greedy[${i}].logprobs`);
      expect(results[i]?.finishReason).toBe('length');
      expect(tokenizer.decode(want.output_ids), `greedy[${i}].text`).toBe(want.text);
    }
  });

  test('the sampler draws no id that the tokenizer lacks', async () => {
    const { config, vocabulary } = await loadPolicy(dir);
    expect(vocabulary).toBe(Math.min(expected.tokenizer.vocab_size, config.vocabSize));
  });

  test('sampling_filters: the order of the filters', () => {
    expect(expected.sampling_filters.order).toEqual(['temperature', 'top_k', 'top_p', 'min_p']);
  });

  test.each(
    expected.sampling_filters.cases.map(
      (one, i) => [`sampling_filters.cases[${i}] ${JSON.stringify(one.params)}`, one] as const,
    ),
  )('%s', async (name, { params, num_kept: count, kept_ids: ids, top_ids: topIds, top_probs: topProbs }) => {
    const logits = await filteredLogits(dir, expected);
    const most = Math.max(...logits);
    const weights = Float64Array.from(logits, (logit) => Math.exp((logit - most) / params.temperature));
    filterWeights(weights, { topK: params.top_k, topP: params.top_p, minP: params.min_p });
    const kept = [...weights.keys()].filter((id) => (weights[id] ?? 0) > 0);
    expect(kept.length, `${name} num_kept`).toBe(count);
    if (ids !== null) expect(kept, `${name} kept_ids`).toEqual(ids);
    const total = weights.reduce((sum, x) => sum + x, 0);
    const ranked = [...kept].sort((a, b) => (weights[b] ?? 0) - (weights[a] ?? 0)).slice(0, topIds.length);
    expect(ranked, `${name} top_ids`).toEqual(topIds);
    expectClose(
      ranked.map((id) => (weights[id] ?? 0) / total),
      topProbs,
      1e-6,
      `${name} top_probs`,
    );
  });
});
