/**
 * Hunts tensors that outlive the pass or the step that made them: a long run would run out of memory. Not asserted: how
 * much memory a running pass takes.
 */

import { describe, expect, test } from 'vitest';
import { AdamW, TrainingDiverged } from '../../trainer/optimizer.ts';
import { Learner } from '../../trainer/learner.ts';
import { newAdapter } from '../../trainer/lora/new-adapter.ts';
import type { ModelConfig } from '../../trainer/model/config.ts';
import { tokenBatch } from '../../trainer/model/token-batch.ts';
import { tf } from '../../trainer/tensorflow.ts';
import { randomWeights } from './sampler/random-policy.ts';
import { smallConfig, someTokens } from './tiny-policy.ts';

const config: ModelConfig = { ...smallConfig, layers: 2 };
const settings = { learningRate: 1e-4, betas: [0.9, 0.999], epsilon: 1e-8, weightDecay: 0.01, maxGradNorm: 1 } as const;
const batchOf = (length: number) =>
  tokenBatch([{ tokens: someTokens(length, length), mask: someTokens(length, 3).map(() => 1) }]);

function learnerOf(kind: 'full' | 'adapter'): Learner {
  const adapter =
    kind === 'adapter'
      ? newAdapter(config, { rank: 2, alpha: 4, targetModules: ['q_proj', 'down_proj'] }, '/base', 1)
      : undefined;
  return new Learner(config, randomWeights(config, 1), adapter);
}

/** Passes over one length, then a step: after it, a learner holds everything that it keeps. */
function step(learner: Learner, optimizer: AdamW, lengths: readonly number[], entropy: boolean | 'trained'): void {
  for (const length of lengths) {
    learner.forwardBackward(batchOf(length), entropy, ({ logprobs, entropies }) => {
      const gradient = new Float32Array(logprobs.length).fill(-0.01);
      return entropy === 'trained' && entropies !== undefined ? { logprobs: gradient, entropies: gradient } : gradient;
    });
  }
  const { trainable } = learner.policy;
  optimizer.apply(trainable, learner.gradients.flatten(learner.policy), settings);
}

// Thirty steps have every length of each kind of pass.
describe.each([
  ['full', 30],
  ['adapter', 20],
] as const)('training of %s weights', (kind, steps) => {
  test(`${10 * steps} passes leave no tensor behind`, () => {
    const learner = learnerOf(kind);
    const optimizer = AdamW.fresh(learner.policy.trainable.layout);
    step(learner, optimizer, [40, 9], 'trained');
    learner.policy.weights();
    const { numTensors: before } = tf.memory();
    for (let i = 0; i < steps; i++) {
      step(
        learner,
        optimizer,
        [5 + (i % 30), 12, 8, 33, 2 + (i % 7), 12, 40, 7],
        i % 3 === 0 ? 'trained' : i % 3 === 1,
      );
      learner.forward(batchOf(8 + (i % 20)), true);
      learner.forward(batchOf(20), false);
    }
    learner.policy.weights();
    expect(tf.memory().numTensors).toBe(before);
    optimizer.dispose();
    learner.dispose();
  });

  test('a pass that fails leaves none, whether layers are kept or computed again, and the next is as if it had not been', () => {
    for (const recompute of [false, true]) {
      const learner = learnerOf(kind);
      learner.gradientCheckpointing = recompute;
      const pass = (respond: (n: number) => Float32Array) =>
        learner.forwardBackward(batchOf(30), true, ({ logprobs }) => respond(logprobs.length));
      const gradient = (): number[] => {
        pass((n) => new Float32Array(n).fill(1));
        const flat = learner.gradients.flatten(learner.policy);
        const values = [...flat.dataSync()];
        flat.dispose();
        return values;
      };
      const wanted = gradient();
      const { numTensors: before } = tf.memory();
      for (let i = 0; i < 20; i++) {
        expect(() =>
          pass(() => {
            throw new RangeError('no loss');
          }),
        ).toThrow('no loss');
        // Too few numbers: TensorFlow refuses the product.
        expect(() => pass((n) => new Float32Array(n - 1))).toThrow();
      }
      expect(tf.memory().numTensors).toBe(before);
      expect(gradient()).toEqual(wanted);
      learner.dispose();
    }
  });
});

test('a policy or moments that lack a tensor leave none', () => {
  const adapter = newAdapter(config, { rank: 2, alpha: 4, targetModules: ['q_proj'] }, '/base', 1);
  const weights = randomWeights(config, 1);
  const learner = new Learner(config, weights);
  const { layout } = learner.policy;
  const moments = AdamW.fresh(layout);
  const half = new Map([...moments.save(layout)].filter(([name]) => !name.startsWith('exp_avg_sq.')));
  const { numTensors: before } = tf.memory();
  weights.delete('model.norm.weight');
  expect(() => new Learner(config, weights, adapter)).toThrow('model.norm.weight is missing');
  expect(() => AdamW.load(layout, half, 1)).toThrow('exp_avg_sq.model.embed_tokens.weight is missing');
  expect(tf.memory().numTensors).toBe(before);
  moments.dispose();
  learner.dispose();
});

test('a step that diverged changes no weight, and leaves no tensor', () => {
  const learner = learnerOf('full');
  const optimizer = AdamW.fresh(learner.policy.layout);
  learner.policy.weights();
  const { numTensors: before } = tf.memory();
  for (let i = 0; i < 5; i++) {
    learner.forwardBackward(batchOf(20), false, ({ logprobs }) => new Float32Array(logprobs.length).fill(Infinity));
    expect(() => optimizer.apply(learner.policy, learner.gradients.flatten(learner.policy), settings)).toThrow(
      TrainingDiverged,
    );
  }
  // The first pass created the tables of angles: cosine, sine and the exchange of halves.
  expect(tf.memory().numTensors).toBe(before + 3);
  optimizer.dispose();
  learner.dispose();
});
