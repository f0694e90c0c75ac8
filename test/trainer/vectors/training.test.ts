/** Loss, gradients and AdamW against PyTorch (values of a float64 run). */

import { describe, expect, test } from 'vitest';
import { AdamW } from '../../../trainer/optimizer.ts';
import { unpackFlat } from '../../../trainer/model/parameters.ts';
import { loadLearner } from '../tiny-policy.ts';
import { expectClose, largest, models, norm } from './model-folders.ts';
import { learn, trainBatch } from './train-batch.ts';

/**
 * By how much the loss after AdamW's first step depends on the rounding of gradients: that step is lr · g / (|g| + eps),
 * so where g is below float32's noise (1e-7 here, PyTorch's as ours) its sign is anybody's. First order, in the loss's unit.
 */
function conditioning(before: Float32Array, after: Float32Array, lr: number, eps: number): number {
  const noise = 1e-7;
  const moved = (g: number): number => (lr * g) / (Math.abs(g) + eps);
  const uncertain = (g: number): number => Math.max(moved(g + noise) - moved(g), moved(g) - moved(g - noise));
  return before.reduce((sum, g, i) => sum + Math.abs(after[i] ?? 0) * uncertain(g), 0);
}

describe.each(models)('$file', ({ dir, expected }) => {
  const { train } = expected;
  const batch = trainBatch(expected);

  test('train: loss and the gradient of every tensor', async () => {
    const learner = await loadLearner(dir);
    expectClose([learn(learner, batch)], [train.loss], 1e-5, 'train.loss');
    const flat = learner.gradients.flatten(learner.policy);
    const gradients = unpackFlat(learner.policy.layout, flat.dataSync() as Float32Array);
    expect([...gradients.keys()].sort()).toEqual(Object.keys(train.all_grad_norms).sort());
    for (const [name, want] of Object.entries(train.all_grad_norms)) {
      expectClose([norm(gradients.get(name)!.data)], [want], 1e-4 * want, `train.all_grad_norms ${name}`);
    }
    for (const [name, { first16, norm: whole }] of Object.entries(train.grads)) {
      const { data } = gradients.get(name)!;
      expectClose(data.subarray(0, first16.length), first16, 1e-4 * largest(data), `train.grads ${name} first16`);
      expectClose([norm(data)], [whole], 1e-4 * whole, `train.grads ${name} norm`);
    }
    learner.dispose();
  });

  test('train: AdamW, one step, then three with the norm clipped to 0.5', async () => {
    const learner = await loadLearner(dir);
    const { lr, betas, eps, weight_decay: weightDecay, params, loss_after: lossAfter } = train.adamw_step1;
    const settings = { learningRate: lr, betas, epsilon: eps, weightDecay };
    const optimizer = AdamW.fresh(learner.policy.layout);
    const step = (maxGradNorm: number): { loss: number; gradNorm: number; values: Float32Array } => {
      const loss = learn(learner, batch);
      const gradient = learner.gradients.flatten(learner.policy);
      const values = gradient.dataSync().slice() as Float32Array;
      return { loss, values, gradNorm: optimizer.apply(learner.policy, gradient, { ...settings, maxGradNorm }) };
    };
    const { global_grad_norm: globalNorm } = train;
    const first = step(Infinity);
    expectClose([first.gradNorm], [globalNorm], 1e-4 * globalNorm, 'train.global_grad_norm');
    const weights = learner.policy.download();
    for (const [name, { first16, well_conditioned: certain, norm: whole }] of Object.entries(params)) {
      const { data } = weights.get(name)!;
      const chosen = first16.flatMap((_, i) => (certain?.[i] === true ? [i] : []));
      expectClose(
        chosen.map((i) => data[i] ?? NaN),
        chosen.map((i) => first16[i] ?? NaN),
        2e-5,
        `train.adamw_step1.params ${name}`,
      );
      expectClose([norm(data)], [whole], 1e-4 * whole, `train.adamw_step1.params ${name} norm`);
    }
    const { steps, final_loss: finalLoss } = train['three_more_steps_clip_0.5'];
    for (const [i, want] of steps.entries()) {
      const got = step(0.5);
      if (i === 0)
        expectClose(
          [got.loss],
          [lossAfter],
          1e-5 + conditioning(first.values, got.values, lr, eps),
          'train.adamw_step1.loss_after',
        );
      expectClose([got.loss], [want.loss], 1e-3, `train.three_more_steps_clip_0.5 step ${i} loss`);
      expectClose(
        [got.gradNorm],
        [want.grad_norm_before_clip],
        1e-3 * want.grad_norm_before_clip,
        `train.three_more_steps_clip_0.5 step ${i} norm`,
      );
    }
    expectClose([learn(learner, batch)], [finalLoss], 1e-3, 'train.three_more_steps_clip_0.5.final_loss');
    learner.dispose();
    optimizer.dispose();
  });
});
