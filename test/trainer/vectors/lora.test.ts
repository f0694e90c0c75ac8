/** LoRA adapters against PEFT: loss, gradients, logits through training and through the sampler's merged weights. */

import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Learner } from '../../../trainer/learner.ts';
import { readAdapterJson } from '../../../trainer/lora/adapter-files.ts';
import type { AdapterWeights } from '../../../trainer/lora/adapter-layout.ts';
import { readModelConfig } from '../../../trainer/model/describe-policy.ts';
import { unpackFlat } from '../../../trainer/model/parameters.ts';
import { Policy } from '../../../trainer/model/policy.ts';
import { readSafetensors } from '../../../trainer/model/safetensors.ts';
import { tokenBatch } from '../../../trainer/model/token-batch.ts';
import { loadWeights } from '../../../trainer/model/weights.ts';
import { type VectorModel, expectClose, expectedTensors, largest, models, norm } from './model-folders.ts';
import { decodeAll, passesOf } from './passes.ts';
import { learn, trainBatch } from './train-batch.ts';

async function adapterOf({ dir, expected }: VectorModel): Promise<AdapterWeights> {
  const folder = path.join(dir, expected.lora.adapter_dir);
  return {
    json: (await readAdapterJson(folder))!,
    tensors: await readSafetensors(path.join(folder, 'adapter_model.safetensors')),
  };
}

describe.each(models)('$file', (model) => {
  const { dir, expected } = model;
  const { lora } = expected;

  test('lora: loss, and the gradient of every A and B', async () => {
    const learner = new Learner(await readModelConfig(dir), await loadWeights(dir), await adapterOf(model));
    expect(
      [...learner.policy.adapter!.modules.values()].every(
        ({ scaling, rank }) => scaling === lora.scaling && rank === lora.r,
      ),
    ).toBe(true);
    expectClose([learn(learner, trainBatch(expected))], [lora.loss], 1e-5, 'lora.loss');
    const flat = learner.gradients.flatten(learner.policy);
    const { layout } = learner.policy.trainable;
    expect(flat.shape).toEqual([layout.size]);
    const gradients = unpackFlat(layout, flat.dataSync() as Float32Array);
    const whole = Math.sqrt([...gradients.values()].reduce((sum, { data }) => sum + norm(data) ** 2, 0));
    expectClose([whole], [lora.global_grad_norm], 1e-4 * lora.global_grad_norm, 'lora.global_grad_norm');
    for (const [name, want] of Object.entries(lora.grads)) {
      const { data } = gradients.get(name.replace('.default.', '.'))!;
      expectClose([norm(data)], [want.norm], 1e-4 * want.norm, `lora.grads ${name} norm`);
      expectClose(
        data.subarray(0, want.first16.length),
        want.first16,
        1e-4 * largest(data),
        `lora.grads ${name} first16`,
      );
    }
    learner.dispose();
  });

  test('lora: logits of the merged weights, and training knows the same policy', async () => {
    const config = await readModelConfig(dir);
    const [weights, adapter, tensorOf] = [await loadWeights(dir), await adapterOf(model), await expectedTensors(dir)];
    const learner = new Learner(config, weights, adapter);
    const policy = new Policy(config, weights, adapter);
    const merged = policy.merged();
    policy.dispose();
    expect([...merged.keys()].sort()).toEqual([...weights.keys()].sort());
    const passes = await passesOf(config, merged);
    for (const [i, one] of lora.outputs.entries()) {
      const tokens = expected.forward[one.prompt]?.input_ids ?? [];
      const rows = decodeAll(passes, tokens).slice(-4);
      const { columns, data } = tensorOf(one.last4_logits_tensor);
      rows.forEach((logits, row) =>
        expectClose(
          logits,
          data.subarray(row * columns, (row + 1) * columns),
          2e-4,
          `lora.outputs[${i}] ${one.last4_logits_tensor} row ${row}`,
        ),
      );
      const last = rows.at(-1) ?? new Float32Array();
      expectClose(last.subarray(0, 16), one.last_first16, 2e-4, `lora.outputs[${i}].last_first16`);
      expect(last.indexOf(Math.max(...last)), `lora.outputs[${i}].argmax_last`).toBe(one.argmax_last);
      const unmerged = learner.forward(tokenBatch([{ tokens, mask: tokens.map(() => 1) }]), false).logprobs;
      const plain = new Learner(config, merged);
      expectClose(
        plain.forward(tokenBatch([{ tokens, mask: tokens.map(() => 1) }]), false).logprobs,
        unmerged,
        1e-6,
        'merged and unmerged',
      );
      plain.dispose();
    }
    passes.dispose();
    learner.dispose();
  });
});
