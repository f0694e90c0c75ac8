/**
 * Hunts copies of the weights: what a process that samples needs, from the first byte that is read to the first token, over
 * an engine without a policy. It does not assert what training needs, nor times. `LONGHAUL_LARGE_TESTS=1` adds the large policy.
 */

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ModelConfig } from '../../trainer/model/config.ts';
import { type StoredType, writeRandomShards } from './fixtures/random-shards.ts';
import { inScratch } from './tiny-policy.ts';

/** 64M parameters, a quarter of them in each of the two tables. */
const small: ModelConfig = {
  family: 'qwen3',
  vocabSize: 32_000,
  hiddenSize: 512,
  intermediateSize: 2048,
  layers: 8,
  heads: 8,
  kvHeads: 4,
  headDim: 64,
  normEpsilon: 1e-6,
  ropeTheta: 1e6,
  maxPositions: 4096,
  tiedEmbeddings: false,
  initializerRange: 0.02,
  eosTokenIds: [0],
};
/** 250M, the head tied to the embedding. */
const large: ModelConfig = {
  ...small,
  hiddenSize: 1024,
  intermediateSize: 3072,
  layers: 17,
  heads: 16,
  kvHeads: 8,
  tiedEmbeddings: true,
};

type Case = readonly [name: string, config: ModelConfig, type: StoredType];
const always: readonly Case[] = [
  ['64M parameters in float32', small, 'F32'],
  ['64M parameters in bfloat16', small, 'BF16'],
  ['57M parameters in bfloat16, the head tied', { ...small, tiedEmbeddings: true, layers: 10 }, 'BF16'],
];
const onRequest: readonly Case[] = [
  ['250M parameters in float32', large, 'F32'],
  ['250M parameters in bfloat16', large, 'BF16'],
];
const cases = process.env['LONGHAUL_LARGE_TESTS'] === '1' ? [...always, ...onRequest] : always;

interface Grown {
  readonly peak: number;
  readonly kept: number;
}

/** Memory over the weights' float32 bytes, after each version. */
async function grownBy(dir: string, config: ModelConfig, type: StoredType, versions: number): Promise<Grown[]> {
  const bytes = await writeRandomShards(dir, config, type);
  const script = path.join(import.meta.dirname, 'fixtures/sample-versions.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [script, dir, String(versions)]);
  const grown = (JSON.parse(stdout) as Grown[]).map(({ peak, kept }) => ({ peak: peak / bytes, kept: kept / bytes }));
  if (process.env['LONGHAUL_TEST_LOG'] === '1')
    process.stdout.write(`${(bytes / 4e6).toFixed(0)}M ${type}: ${JSON.stringify(grown)}\n`);
  return grown;
}

describe('a policy that is read for sampling', () => {
  test.each(cases)(
    '%s: memory grows by 1.2 times its float32 weights at most',
    { timeout: 300_000 },
    (_, config, type) =>
      inScratch(async (dir) => {
        const [only] = await grownBy(dir, config, type, 1);
        // They are there, and once.
        expect(only!.kept).toBeGreaterThan(1);
        expect(only!.peak).toBeLessThan(1.2);
      }),
  );

  test('the next versions: never more than the two that are kept', () =>
    inScratch(async (dir) => {
      const [, second, third, fourth] = await grownBy(dir, { ...small, layers: 4, vocabSize: 8000 }, 'BF16', 4);
      expect(second!.kept).toBeGreaterThan(2);
      for (const { peak } of [third!, fourth!]) expect(peak).toBeLessThan(2.4);
    }));
});
