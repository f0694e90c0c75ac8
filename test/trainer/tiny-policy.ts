/** The tiny Qwen3 policy of the vectors, and the tools that several trainer tests share. */

import { mkdtemp, rm } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Learner } from '../../trainer/learner.ts';
import type { ModelConfig } from '../../trainer/model/config.ts';
import { readModelConfig } from '../../trainer/model/describe-policy.ts';
import { tokenBatch } from '../../trainer/model/token-batch.ts';
import { loadWeights } from '../../trainer/model/weights.ts';

export const vectors = path.resolve(process.env['LONGHAUL_VECTORS'] ?? path.join(import.meta.dirname, '../vectors'));
export const qwen3Dir = path.join(vectors, 'models/qwen3-tiny');

export const readJson = <T>(...parts: string[]): T => JSON.parse(readFileSync(path.join(...parts), 'utf8')) as T;

export const loadLearner = async (dir: string): Promise<Learner> =>
  new Learner(await readModelConfig(dir), await loadWeights(dir));

export async function inScratch<T>(body: (dir: string) => Promise<T>): Promise<T> {
  const dir = await mkdtemp(path.join(tmpdir(), 'trainer-test-'));
  try {
    return await body(dir);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

export const smallConfig: ModelConfig = {
  family: 'qwen3',
  vocabSize: 512,
  hiddenSize: 32,
  intermediateSize: 48,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 8,
  normEpsilon: 1e-6,
  ropeTheta: 10_000,
  maxPositions: 512,
  tiedEmbeddings: true,
  initializerRange: 0.1,
  eosTokenIds: [505],
};

/** `count` ids below `limit`, the same for the same seed. */
export function someTokens(count: number, seed: number, limit = 500): number[] {
  let state = seed >>> 0;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  });
}

/**
 * Sequences of these lengths, with the log-probabilities of the policy in `dir`, as a sampler would have recorded them.
 */
export async function asSampled(dir: string, lengths: readonly number[]) {
  const learner = await loadLearner(dir);
  const data = lengths.map((length, i) => {
    const tokens = someTokens(length, i + 1);
    const mask = tokens.map((_, t) => (t > 5 && t % 3 !== 0 ? 1 : 0));
    const batch = tokenBatch([{ tokens, mask }]);
    const { logprobs: known } = learner.forward(batch, false);
    const logprobs = tokens.map(() => 0);
    for (const [at, value] of known.entries()) logprobs[batch.indexOf[at]!] = value;
    return { tokens, mask, logprobs };
  });
  learner.dispose();
  return data;
}
