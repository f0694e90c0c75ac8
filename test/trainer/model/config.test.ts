/** config.json in both spellings; unsupported fields are refused by name. */

import { describe, expect, test } from 'vitest';
import { UnsupportedModel, modelConfigJson, parseModelConfig } from '../../../trainer/model/config.ts';
import { describePolicy } from '../../../trainer/model/describe-policy.ts';
import { qwen3Dir, readJson, smallConfig } from '../tiny-policy.ts';

const json = readJson<Record<string, unknown>>(qwen3Dir, 'config.json');

const llama = {
  architectures: ['LlamaForCausalLM'],
  model_type: 'llama',
  vocab_size: 510,
  hidden_size: 48,
  intermediate_size: 64,
  num_hidden_layers: 2,
  num_attention_heads: 6,
  num_key_value_heads: 3,
  max_position_embeddings: 1024,
};
const scaled = {
  factor: 8,
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 128,
  rope_type: 'llama3',
};

describe('parseModelConfig', () => {
  test("Llama's rotary scaling in both spellings; without one, none", () => {
    const before = parseModelConfig({ ...llama, rope_theta: 20_000, rope_scaling: scaled, torch_dtype: 'float32' });
    expect(before.ropeScaling).toEqual({
      type: 'llama3',
      factor: 8,
      lowFreqFactor: 1,
      highFreqFactor: 4,
      originalMaxPositions: 128,
    });
    expect(
      parseModelConfig({ ...llama, rope_parameters: { ...scaled, rope_theta: 20_000 }, dtype: 'float32' }),
    ).toEqual(before);
    expect(parseModelConfig(modelConfigJson(before))).toEqual(before);
    expect(parseModelConfig(llama)).not.toHaveProperty('ropeScaling');
  });

  test("a head's size is the family's own default", () => {
    expect(parseModelConfig(llama).headDim).toBe(8);
    const { head_dim: _, ...rest } = json;
    expect(parseModelConfig(rest).headDim).toBe(128);
  });

  test('a sliding window that is configured but not used changes nothing', () => {
    const qwen2 = { ...llama, architectures: ['Qwen2ForCausalLM'], model_type: 'qwen2' };
    const windowed = { ...qwen2, sliding_window: 4096, use_sliding_window: false, max_window_layers: 1 };
    expect(parseModelConfig(windowed)).toEqual(parseModelConfig(qwen2));
  });

  test('old and new spellings are the same model', () => {
    const { rope_parameters: _, dtype: __, ...rest } = json;
    expect(parseModelConfig({ ...rest, rope_theta: 1e6, rope_scaling: null, torch_dtype: 'bfloat16' })).toEqual(
      parseModelConfig(json),
    );
    expect(parseModelConfig(json).ropeTheta).toBe(1e6);
  });

  test('it reads what it writes', () => {
    expect(parseModelConfig(modelConfigJson(smallConfig))).toEqual(smallConfig);
    const two = { ...smallConfig, eosTokenIds: [1, 2] };
    expect(parseModelConfig(modelConfigJson(two))).toEqual(two);
  });

  test.each([
    ['model_type', { model_type: 'mistral' }],
    ['architectures', { model_type: 'qwen2' }],
    ['architectures', { architectures: ['Qwen3MoeForCausalLM'] }],
    ['hidden_act', { hidden_act: 'gelu' }],
    ['attention_bias', { attention_bias: true }],
    ['use_sliding_window', { use_sliding_window: true }],
    ['rope_type', { rope_scaling: { type: 'linear', factor: 2 } }],
    ['rope_parameters.full_attention', { rope_parameters: { full_attention: { rope_type: 'default' } } }],
    ['partial_rotary_factor', { partial_rotary_factor: 0.5 }],
    ['low_freq_factor', { rope_scaling: { rope_type: 'llama3', factor: 8 } }],
    ['high_freq_factor', { rope_scaling: { rope_type: 'llama3', factor: 8, low_freq_factor: 4, high_freq_factor: 1 } }],
    ['vision_config', { vision_config: {} }],
    ['num_experts', { num_experts: 8 }],
    ['rope_type', { rope_parameters: { rope_type: 'yarn', rope_theta: 1, factor: 2 } }],
    ['layer_types', { layer_types: ['sliding_attention'] }],
    ['quantization_config', { quantization_config: {} }],
    ['dtype', { dtype: 'float8_e4m3fn' }],
    ['hidden_size', { hidden_size: 0 }],
    ['vocab_size', { vocab_size: 3_000_000_000 }],
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
  expect(await describePolicy(qwen3Dir)).toEqual({ parameters: v * d + 2 * layer + d, vocabulary: v, positions: 1024 });
});
