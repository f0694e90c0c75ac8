/** config.json in both spellings; what is not implemented is refused by the field's name. */

import { describe, expect, test } from 'vitest';
import { UnsupportedModel, modelConfigJson, parseModelConfig } from '../../trainer/model/config.ts';
import { describePolicy } from '../../trainer/model/describe-policy.ts';
import { qwen3Dir, readJson, smallConfig } from './tiny-policy.ts';

const json = readJson<Record<string, unknown>>(qwen3Dir, 'config.json');

describe('parseModelConfig', () => {
  test('old and new spellings are the same model', () => {
    const { rope_parameters: _, dtype: __, ...rest } = json;
    expect(parseModelConfig({ ...rest, rope_theta: 1e6, rope_scaling: null, torch_dtype: 'bfloat16' })).toEqual(
      parseModelConfig(json),
    );
    expect(parseModelConfig(json).ropeTheta).toBe(1e6);
  });

  test('what it writes it reads', () => {
    expect(parseModelConfig(modelConfigJson(smallConfig))).toEqual(smallConfig);
    const two = { ...smallConfig, eosTokenIds: [1, 2] };
    expect(parseModelConfig(modelConfigJson(two))).toEqual(two);
  });

  test.each([
    ['model_type', { model_type: 'qwen2' }],
    ['architectures', { architectures: ['Qwen3MoeForCausalLM'] }],
    ['hidden_act', { hidden_act: 'gelu' }],
    ['attention_bias', { attention_bias: true }],
    ['use_sliding_window', { use_sliding_window: true }],
    ['rope_type', { rope_parameters: { rope_type: 'yarn', rope_theta: 1, factor: 2 } }],
    ['layer_types', { layer_types: ['sliding_attention'] }],
    ['quantization_config', { quantization_config: {} }],
    ['dtype', { dtype: 'float8_e4m3fn' }],
    ['hidden_size', { hidden_size: 0 }],
    ['vocab_size', { vocab_size: '515' }],
    ['num_key_value_heads', { num_key_value_heads: 3 }],
    ['head_dim', { head_dim: 15 }],
  ])('refuses %s', (field, change) => {
    const parse = (): unknown => parseModelConfig({ ...json, ...change });
    expect(parse).toThrow(UnsupportedModel);
    expect(parse).toThrow(field);
  });
});

test('describePolicy counts tied weights once', async () => {
  const [d, f, v] = [48, 80, 515];
  const layer = 64 * d + 2 * 32 * d + 64 * d + 3 * d * f + 2 * d + 2 * 16;
  expect(await describePolicy(qwen3Dir)).toEqual({ parameters: v * d + 2 * layer + d, vocabulary: v });
});
