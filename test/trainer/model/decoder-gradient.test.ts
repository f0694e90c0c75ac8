/**
 * The hand-written gradient against finite differences, for cases that the vectors do not cover: several chunks of
 * queries, an untied head, and scores so large that the softmax must be guarded.
 */

import { describe, expect, test } from 'vitest';
import { Learner } from '../../../trainer/learner.ts';
import type { ModelConfig } from '../../../trainer/model/config.ts';
import { initializeWeights } from '../../../trainer/model/initialize.ts';
import { unpackFlat } from '../../../trainer/model/parameters.ts';
import { type TokenBatch, tokenBatch } from '../../../trainer/model/token-batch.ts';
import type { Weights } from '../../../trainer/model/weights.ts';
import { smallConfig, someTokens } from '../tiny-policy.ts';

const lengths = [300, 141, 17];
const batch = tokenBatch(
  lengths.map((length, seed) => ({
    tokens: someTokens(length, seed + 1),
    mask: someTokens(length, seed + 9, 3).map((x) => (x === 0 ? 1 : 0)),
  })),
);
/** Weights of the tokens in the loss: uneven, of both signs. */
const factors = Float32Array.from(batch.labels, (_, i) => Math.cos(i) / batch.labels.length);

function lossOf(config: ModelConfig, weights: Weights, of: TokenBatch): number {
  const learner = new Learner(config, weights);
  const { logprobs } = learner.forward(of, false);
  learner.dispose();
  return logprobs.reduce((sum, x, i) => sum + x * (factors[i] ?? 0), 0);
}

function moved(weights: Weights, direction: Weights, by: number): Weights {
  return new Map(
    [...weights].map(([name, { shape, data }]) => {
      const d = direction.get(name)!.data;
      return [name, { shape, data: data.map((x, i) => x + by * d[i]!) }];
    }),
  );
}

/** The slope along the gradient's own direction is its norm: any wrong part of any tensor shows. Per tensor. */
function check(config: ModelConfig, weights: Weights): void {
  const learner = new Learner(config, weights);
  learner.forwardBackward(batch, false, () => factors);
  const flat = learner.gradients.flatten(learner.policy).dataSync() as Float32Array;
  const gradients = unpackFlat(learner.policy.layout, flat);
  learner.dispose();
  for (const name of gradients.keys()) {
    const norm = Math.sqrt(gradients.get(name)!.data.reduce((sum, x) => sum + x * x, 0));
    const direction: Weights = new Map(
      [...gradients].map(([n, { shape, data }]) => [n, { shape, data: data.map((x) => (n === name ? x / norm : 0)) }]),
    );
    const h = 0.01;
    const slope =
      (lossOf(config, moved(weights, direction, h), batch) - lossOf(config, moved(weights, direction, -h), batch)) /
      (2 * h);
    expect(Math.abs(slope / norm - 1), name).toBeLessThan(0.03);
  }
}

describe('gradient', () => {
  test('tied head, three chunks of queries', () => {
    check(smallConfig, initializeWeights(smallConfig, 'a'));
  });

  test('untied head, one query group per key head', () => {
    const config = { ...smallConfig, tiedEmbeddings: false, kvHeads: 4 };
    check(config, initializeWeights(config, 'b'));
  });

  test('biases, heads that are not normalised', () => {
    const config = { ...smallConfig, family: 'qwen2' as const, tiedEmbeddings: false };
    const weights = [...initializeWeights(config, 'e')].map(([name, { shape, data }], i) => {
      return [name, { shape, data: name.endsWith('.bias') ? data.map((_, j) => Math.sin(i + j)) : data }] as const;
    });
    check(config, new Map(weights));
  });

  test('scores that might overflow: the guarded softmax gives the same function and gradient', () => {
    // Queries ignore the rotary pair (3, 7) of every head, so that k's weight there changes only the bound.
    const withWeight = (k: number): Weights =>
      new Map(
        [...initializeWeights(smallConfig, 'c')].map(([name, { shape, data }]) => {
          if (name.includes('q_norm')) return [name, { shape, data: data.map((x, i) => (i % 4 === 3 ? 0 : x)) }];
          if (name.includes('k_norm')) return [name, { shape, data: data.map((x, i) => (i === 7 ? k : x)) }];
          return [name, { shape, data }];
        }),
      );
    const gradientsOf = (weights: Weights): { bound: number; gradients: Weights } => {
      const learner = new Learner(smallConfig, weights);
      learner.forwardBackward(batch, false, () => factors);
      const flat = learner.gradients.flatten(learner.policy).dataSync() as Float32Array;
      const bound = learner.policy.weights().scoreBound;
      learner.dispose();
      return { bound, gradients: unpackFlat(learner.policy.layout, flat) };
    };
    const [plain, guarded] = [gradientsOf(withWeight(1)), gradientsOf(withWeight(500))];
    expect(plain.bound).toBeLessThan(60);
    expect(guarded.bound).toBeGreaterThan(1000);
    for (const [name, { data }] of plain.gradients) {
      if (name.includes('q_norm')) continue;
      const scale = data.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
      const other = guarded.gradients.get(name)!.data;
      for (const [i, x] of data.entries())
        expect(Math.abs(other[i]! - x), `${name}[${i}]`).toBeLessThan(1e-4 * scale + 1e-9);
    }
  });

  test('a context so long that chunks grow: later tokens do not change earlier results', () => {
    const learner = new Learner(smallConfig, initializeWeights(smallConfig, 'f'));
    const tokens = someTokens(2300, 3);
    const logprobsOf = (length: number): Float32Array =>
      learner.forward(tokenBatch([{ tokens: tokens.slice(0, length), mask: tokens.map(() => 1) }]), false).logprobs;
    const [short, long] = [logprobsOf(200), logprobsOf(2300)];
    learner.dispose();
    for (const [i, x] of short.entries()) expect(Math.abs(long[i]! - x)).toBeLessThan(1e-4);
  });

  test('micro-batches add up to the whole', () => {
    const weights = initializeWeights(smallConfig, 'd');
    const parts = lengths.map((length, seed) => ({
      tokens: someTokens(length, seed + 1),
      mask: someTokens(length, 5, 3),
    }));
    const flatOf = (groups: (typeof parts)[]): Float32Array => {
      const learner = new Learner(smallConfig, weights);
      for (const group of groups)
        learner.forwardBackward(tokenBatch(group), false, ({ logprobs }) => new Float32Array(logprobs.length).fill(1));
      const flat = learner.gradients.flatten(learner.policy).dataSync() as Float32Array;
      learner.dispose();
      return flat;
    };
    const [whole, cut] = [flatOf([parts]), flatOf(parts.map((part) => [part]))];
    const scale = whole.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    for (const [i, x] of whole.entries()) expect(Math.abs(cut[i]! - x) / scale).toBeLessThan(1e-4);
  });
});
