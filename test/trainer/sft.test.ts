/** Supervised training: it learns, the seed decides every bit, and an update can start from its policy. */

import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { readModelConfig } from '../../trainer/model/describe-policy.ts';
import { loadWeights } from '../../trainer/model/weights.ts';
import { tokenBatch } from '../../trainer/model/token-batch.ts';
import { OutOfData, type SftRequest, type SftStep, runSft } from '../../trainer/sft.ts';
import type { SftEvaluation } from '../../trainer/sft-states.ts';
import { inScratch, loadLearner, qwen3Dir, smallConfig, someTokens } from './tiny-policy.ts';

/** Copying: eight tokens, then the same eight; the second half counts. */
const copying = (seed: number) => {
  const half = someTokens(8, seed, 40);
  return { tokens: [...half, ...half], mask: Array.from({ length: 16 }, (_, i) => (i < 8 ? 0 : 1)) };
};

const config = { ...smallConfig, vocabSize: 48 };

const request = (toDir: string, change: Partial<SftRequest> = {}): SftRequest => ({
  initial: config,
  data: ({ stage, step, batchSize }) =>
    Array.from({ length: batchSize }, (_, i) => copying(stage * 1e6 + step * 64 + i)),
  stages: [{ steps: 25, batchSize: 16, learningRate: 3e-3, warmup: 5, schedule: 'cosine', finalRate: 0.1 }],
  seed: 1,
  toDir,
  tokenizerDir: qwen3Dir,
  ...change,
});

describe('runSft', () => {
  test('learns, and writes a policy without moments', () =>
    inScratch(async (dir) => {
      const steps: SftStep[] = [];
      const to = path.join(dir, 'policy');
      const record = await runSft(request(to, { onStep: (step) => steps.push(step) }));
      expect(record).toMatchObject({ step: 0, version: 0 });
      expect((await readdir(to)).sort()).toEqual([
        'config.json',
        'longhaul.json',
        'model.safetensors',
        'tokenizer.json',
        'tokenizer_config.json',
      ]);
      expect(await readModelConfig(to)).toEqual(config);
      expect(steps).toHaveLength(25);
      expect(steps[0]).toMatchObject({ stage: 0, step: 0, tokens: 256, targets: 128 });
      expect(Math.abs(steps[0]!.loss - Math.log(48))).toBeLessThan(0.5);
      // The policy learned which tokens are used, and guesses among them.
      expect(steps.at(-1)!.loss).toBeLessThan(Math.log(42));
    }));

  test('the same seed gives the same bits, another seed does not', () =>
    inScratch(async (dir) => {
      const of = async (name: string, seed: number): Promise<string> =>
        (
          await runSft(
            request(path.join(dir, name), {
              seed,
              stages: [{ steps: 3, batchSize: 8, learningRate: 1e-3, warmup: 1, schedule: 'constant' }],
            }),
          )
        ).sha256;
      const first = await of('a', 1);
      expect(await of('b', 1)).toBe(first);
      expect(await of('c', 2)).not.toBe(first);
    }));

  test('evaluates with the mean loss and the share of tokens that are the most likely ones', () =>
    inScratch(async (dir) => {
      const sequences = [copying(7001), copying(7002), { ...copying(7003), mask: Array.from({ length: 16 }, () => 0) }];
      const seen: SftEvaluation[] = [];
      const { progress } = await runSft(
        request(path.join(dir, 'a'), {
          stages: [{ steps: 3, batchSize: 4, learningRate: 1e-2, warmup: 0, schedule: 'constant' }],
          evaluation: { sequences, every: 2, onEvaluation: (one) => seen.push(one) },
          microBatchTokens: 16,
        }),
      );
      expect(seen.map(({ steps }) => steps)).toEqual([0, 2, 3]);
      expect(progress.evaluations).toEqual(seen);
      const learner = await loadLearner(path.join(dir, 'a'));
      try {
        let [loss, right] = [0, 0];
        for (const sequence of sequences.slice(0, 2)) {
          for (let at = 8; at < 16; at++) {
            const logprobOf = (token: number): number => {
              const tokens = [...sequence.tokens.slice(0, at), token];
              const mask = tokens.map((_, i) => (i === at ? 1 : 0));
              return learner.forward(tokenBatch([{ tokens, mask }]), false).logprobs[0]!;
            };
            const own = logprobOf(sequence.tokens[at]!);
            loss -= own;
            right += Array.from({ length: 48 }, (_, token) => logprobOf(token)).every((one) => one <= own) ? 1 : 0;
          }
        }
        expect(seen.at(-1)).toMatchObject({ accuracy: right / 16, targets: 16 });
        expect(seen.at(-1)!.loss).toBeCloseTo(loss / 16, 4);
      } finally {
        learner.dispose();
      }
    }));

  test('continues from a directory, with batches from an iterable, and fails if they end early', () =>
    inScratch(async (dir) => {
      async function* batches() {
        for (let i = 0; i < 2; i++) yield [copying(i), copying(i + 50)];
      }
      const stage = { batchSize: 2, learningRate: 1e-3, warmup: 0, schedule: 'linear' } as const;
      await runSft(
        request(path.join(dir, 'a'), { initial: qwen3Dir, data: batches(), stages: [{ ...stage, steps: 2 }] }),
      );
      expect((await loadWeights(path.join(dir, 'a'))).size).toBe(24);
      const early = runSft(
        request(path.join(dir, 'b'), { initial: qwen3Dir, data: batches(), stages: [{ ...stage, steps: 3 }] }),
      );
      await expect(early).rejects.toBeInstanceOf(OutOfData);
      expect(await readdir(dir)).toEqual(['a']);
    }));
});
