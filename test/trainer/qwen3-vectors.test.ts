/** The decoder, its gradient and AdamW against Hugging Face transformers and PyTorch (values of a float64 run). */

import { describe, expect, test } from 'vitest';
import { AdamW } from '../../trainer/adamw.ts';
import type { Learner } from '../../trainer/learner.ts';
import { unpackFlat } from '../../trainer/model/parameters.ts';
import { tokenBatch } from '../../trainer/model/token-batch.ts';
import { loadLearner, qwen3Dir, readJson } from './tiny-policy.ts';

interface TensorSample {
  readonly norm: number;
  readonly first16: readonly number[];
  readonly well_conditioned?: readonly boolean[];
}

interface Expected {
  readonly forward: ReadonlyArray<{ input_ids: number[]; logprobs_t1: number[]; entropy_t1: number[] }>;
  readonly train: {
    readonly input_ids: number[][];
    readonly attention_mask: number[][];
    readonly loss_mask: number[][];
    readonly loss: number;
    readonly global_grad_norm: number;
    readonly all_grad_norms: Record<string, number>;
    readonly grads: Record<string, TensorSample>;
    readonly adamw_step1: {
      lr: number;
      betas: [number, number];
      eps: number;
      weight_decay: number;
      params: Record<string, TensorSample>;
      loss_after: number;
    };
    readonly 'three_more_steps_clip_0.5': {
      steps: ReadonlyArray<{ loss: number; grad_norm_before_clip: number }>;
      final_loss: number;
    };
  };
}

const expected = readJson<Expected>(qwen3Dir, 'expected.json');

const sequences = expected.train.input_ids.map((ids, row) => {
  const length = (expected.train.attention_mask[row] ?? []).filter(Boolean).length;
  return { tokens: ids.slice(0, length), mask: (expected.train.loss_mask[row] ?? []).slice(0, length) };
});
const batch = tokenBatch(sequences);
const tokens = batch.labels.length;

/** One backward pass of the mean cross-entropy; returns the loss. */
function learn(learner: Learner): number {
  let loss = 0;
  learner.learn(batch, false, ({ logprobs }) => {
    loss = -logprobs.reduce((sum, x) => sum + x, 0) / tokens;
    return new Float32Array(tokens).fill(-1 / tokens);
  });
  return loss;
}

const largest = (values: Float32Array): number => values.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
const norm = (values: Float32Array): number => Math.sqrt(values.reduce((sum, x) => sum + x * x, 0));

describe('forward', () => {
  test('log-probabilities and entropies of every position, alone and padded beside others', async () => {
    const learner = await loadLearner(qwen3Dir);
    const whole = expected.forward.map(({ input_ids: ids }) => ({ tokens: ids, mask: ids.map(() => 1) }));
    const want = expected.forward.flatMap((f) => f.logprobs_t1);
    const together = learner.statistics(tokenBatch(whole), true);
    const alone = whole.flatMap((sequence) => [...learner.statistics(tokenBatch([sequence]), false).logprobs]);
    expect(alone).toHaveLength(want.length);
    for (const [i, value] of want.entries()) {
      expect(Math.abs((together.logprobs[i] ?? NaN) - value)).toBeLessThan(2e-4);
      expect(Math.abs((alone[i] ?? NaN) - value)).toBeLessThan(2e-4);
    }
    const entropies = expected.forward.flatMap((f) => f.entropy_t1.slice(0, f.logprobs_t1.length));
    for (const [i, value] of entropies.entries()) {
      expect(Math.abs((together.entropies?.[i] ?? NaN) - value)).toBeLessThan(2e-4);
    }
    learner.dispose();
  });
});

describe('training', () => {
  test('loss and the gradient of every tensor', async () => {
    const learner = await loadLearner(qwen3Dir);
    expect(Math.abs(learn(learner) - expected.train.loss)).toBeLessThan(1e-5);
    const flat = learner.gradients.flatten(learner.policy);
    const gradients = unpackFlat(learner.policy.layout, flat.dataSync() as Float32Array);
    expect([...gradients.keys()].sort()).toEqual(Object.keys(expected.train.all_grad_norms).sort());
    for (const [name, value] of Object.entries(expected.train.all_grad_norms)) {
      expect(Math.abs(norm(gradients.get(name)!.data) / value - 1), name).toBeLessThan(1e-4);
    }
    for (const [name, { first16 }] of Object.entries(expected.train.grads)) {
      const { data } = gradients.get(name)!;
      for (const [i, value] of first16.entries()) {
        expect(Math.abs(data[i]! - value) / largest(data), `${name}[${i}]`).toBeLessThan(1e-4);
      }
    }
    learner.dispose();
  });

  test('AdamW: one step, then three with the norm clipped to 0.5', async () => {
    const learner = await loadLearner(qwen3Dir);
    const { lr, betas, eps, weight_decay: weightDecay, params, loss_after } = expected.train.adamw_step1;
    const settings = { learningRate: lr, betas, epsilon: eps, weightDecay, maxGradNorm: Infinity };
    const optimizer = AdamW.fresh(learner.policy.layout);
    const step = (maxGradNorm: number): { loss: number; gradNorm: number } => {
      const loss = learn(learner);
      const gradient = learner.gradients.flatten(learner.policy);
      return { loss, gradNorm: optimizer.apply(learner.policy, gradient, { ...settings, maxGradNorm }) };
    };
    expect(Math.abs(step(Infinity).gradNorm / expected.train.global_grad_norm - 1)).toBeLessThan(1e-4);
    const weights = learner.policy.download();
    for (const [name, { first16, well_conditioned: certain }] of Object.entries(params)) {
      for (const [i, value] of first16.entries()) {
        if (certain?.[i]) expect(Math.abs(weights.get(name)!.data[i]! - value), `${name}[${i}]`).toBeLessThan(2e-5);
      }
    }
    const { steps, final_loss: finalLoss } = expected.train['three_more_steps_clip_0.5'];
    expect(Math.abs((steps[0]?.loss ?? NaN) - loss_after)).toBeLessThan(1e-6);
    for (const want of steps) {
      const got = step(0.5);
      expect(Math.abs(got.loss - want.loss)).toBeLessThan(1e-3);
      expect(Math.abs(got.gradNorm / want.grad_norm_before_clip - 1)).toBeLessThan(1e-3);
    }
    expect(Math.abs(learn(learner) - finalLoss)).toBeLessThan(1e-3);
    learner.dispose();
    optimizer.dispose();
  });
});
