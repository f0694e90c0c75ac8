/** All forward passes, the sampler's and the trainer's, against Hugging Face transformers. */

import { afterAll, describe, expect, test } from 'vitest';
import { inverseFrequencies } from '../../../trainer/model/layers/rope-frequencies.ts';
import { tokenBatch } from '../../../trainer/model/token-batch.ts';
import { gathered } from '../../../trainer/model/weights.ts';
import { loadPolicy } from '../../../trainer/sampler/policy-loader.ts';
import { loadLearner } from '../tiny-policy.ts';
import { type PaddedCase, expectClose, expectedTensors, models } from './model-folders.ts';
import { decodeAll, decoderNames, passesOf, prefill } from './passes.ts';

const tolerance = 2e-4;

function logSumExp(logits: Float32Array, temperature = 1): number {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  return most / temperature + Math.log(logits.reduce((sum, x) => sum + Math.exp((x - most) / temperature), 0));
}

function entropy(logits: Float32Array): number {
  const total = logSumExp(logits);
  return logits.reduce((sum, x) => sum - Math.exp(x - total) * (x - total), 0);
}

const argMax = (logits: Float32Array): number =>
  logits.reduce((best, x, id) => (x > (logits[best] ?? -Infinity) ? id : best), 0);

/** The real tokens of each row, whatever pads it on which side. */
function unpadded({ input_ids, attention_mask, position_ids }: PaddedCase): number[][] {
  return input_ids.map((ids, row) => {
    const real = ids.flatMap((_, i) => (attention_mask[row]?.[i] === 1 ? [i] : []));
    expect(real.map((i) => position_ids[row]?.[i])).toEqual(real.map((_, i) => i));
    return real.map((i) => ids[i] ?? 0);
  });
}

for (const { file, dir, expected } of models) {
  const { config, ...loaded } = await loadPolicy(dir);
  const weights = await gathered(loaded.weights);
  const tensorOf = await expectedTensors(dir);

  describe(file, () => {
    test('rope_inv_freq', () => {
      const got = inverseFrequencies(config);
      expect(got).toHaveLength(expected.rope_inv_freq.length);
      for (const [i, want] of expected.rope_inv_freq.entries()) {
        expectClose([got[i] ?? NaN], [want], 1e-6 * want, `rope_inv_freq[${i}]`);
      }
    });

    describe.each(decoderNames)("the sampler's decoder: %s", async (decoder) => {
      const passes = await passesOf(config, weights, decoder);
      afterAll(() => passes.dispose());

      test.each(expected.forward.map((one, i) => [`forward[${i}]`, one] as const))('%s', (name, one) => {
        const { columns, data } = tensorOf(one.logits_tensor);
        const tokens = one.input_ids;
        const rows = decodeAll(passes, tokens);
        const row = (t: number): Float32Array => rows[t] ?? new Float32Array();
        tokens.forEach((_, t) =>
          expectClose(
            row(t),
            data.subarray(t * columns, (t + 1) * columns),
            tolerance,
            `${name} ${one.logits_tensor} position ${t}`,
          ),
        );
        expectClose(
          prefill(passes, tokens),
          data.subarray((tokens.length - 1) * columns),
          tolerance,
          `${name} logits by prefill`,
        );
        const shown = one.positions === 'all' ? rows : rows.slice(-8);
        shown.forEach((logits, i) =>
          expectClose(
            logits.subarray(0, 16),
            one.logits_first16_per_position[i] ?? [],
            tolerance,
            `${name} logits_first16_per_position ${i}`,
          ),
        );
        expect(rows.map(argMax), `${name} argmax`).toEqual(one.argmax);
        expectClose(
          rows.map((logits) => logSumExp(logits)),
          one.logsumexp,
          tolerance,
          `${name} logsumexp`,
        );
        expectClose(rows.map(entropy), one.entropy_t1, tolerance, `${name} entropy_t1`);
        for (const [temperature, want, field] of [
          [1, one.logprobs_t1, 'logprobs_t1'],
          [0.7, one.logprobs_t07, 'logprobs_t07'],
        ] as const) {
          const got = tokens
            .slice(1)
            .map((token, t) => (row(t)[token] ?? NaN) / temperature - logSumExp(row(t), temperature));
          expectClose(got, want, tolerance, `${name} ${field}`);
        }
      });

      test.each(['left', 'right'] as const)('padded.%s: all rows in one pass', (side) => {
        const padded = expected.padded[side];
        const rows = unpadded(padded).map((tokens, i) => ({ slot: i % 8, tokens, from: 0, count: tokens.length }));
        passes.of(...rows).forEach((logits, i) => {
          expectClose(
            logits.subarray(0, 16),
            padded.last_token_logits_first16[i] ?? [],
            tolerance,
            `padded.${side}.last_token_logits_first16[${i}]`,
          );
        });
      });
    });

    test("the trainer's decoder: log-probabilities and entropies, alone and padded beside others", async () => {
      const learner = await loadLearner(dir);
      const whole = expected.forward.map(({ input_ids: ids }) => ({ tokens: ids, mask: ids.map(() => 1) }));
      const want = expected.forward.flatMap((one) => one.logprobs_t1);
      const together = learner.forward(tokenBatch(whole), true);
      expectClose(together.logprobs, want, tolerance, 'forward logprobs_t1, together');
      const alone = whole.flatMap((sequence) => [...learner.forward(tokenBatch([sequence]), false).logprobs]);
      expectClose(alone, want, tolerance, 'forward logprobs_t1, alone');
      const entropies = expected.forward.flatMap((one) => one.entropy_t1.slice(0, one.logprobs_t1.length));
      expectClose(together.entropies ?? [], entropies, tolerance, 'forward entropy_t1');
      learner.dispose();
    });
  });
}
