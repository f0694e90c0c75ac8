/** Which tensors make a policy: hunts another model's checkpoint that is accepted, and this model's that is refused. */

import { expect, test } from 'vitest';
import { layoutOf, refuseUnknown } from '../../../trainer/model/parameters.ts';
import { smallConfig } from '../tiny-policy.ts';

const refuse =
  (name: string, tiedEmbeddings = true) =>
  () =>
    refuseUnknown(
      layoutOf({ ...smallConfig, tiedEmbeddings }),
      new Map([[name, { shape: [1], data: new Float32Array(1) }]]),
      tiedEmbeddings,
    );

test('a tensor of another model is refused by its name', () => {
  for (const name of [
    'model.layers.2.input_layernorm.weight',
    'model.layers.0.self_attn.q_proj.bias',
    'rotary_emb.inv_freq',
  ]) {
    expect(refuse(name)).toThrow(`weights: ${name} is not a tensor of the configured model`);
  }
});

test('derived tensors are accepted: a tied head, and frequencies as Llama 2 stores them', () => {
  expect(refuse('lm_head.weight')).not.toThrow();
  expect(refuse('model.layers.1.self_attn.rotary_emb.inv_freq')).not.toThrow();
});
