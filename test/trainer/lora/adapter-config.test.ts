/** PEFT's configuration: which modules it names, their scaling, and which settings are refused by name. */

import { describe, expect, test } from 'vitest';
import { UnsupportedAdapter, adapterJson, adapterModules } from '../../../trainer/lora/adapter-config.ts';
import { valueConfig } from '../../../trainer/model/config.ts';
import { layoutOf } from '../../../trainer/model/parameters.ts';
import { smallConfig } from '../tiny-policy.ts';

const base = layoutOf({ ...smallConfig, tiedEmbeddings: false });
const json = adapterJson({ rank: 8, alpha: 16, targetModules: ['q_proj', 'v_proj'] }, '/base');
const names = (change: Record<string, unknown>): string[] =>
  adapterModules({ ...json, ...change }, base).map(({ module }) => module);
const attention = (layer: number): string[] => [
  `model.layers.${layer}.self_attn.q_proj`,
  `model.layers.${layer}.self_attn.v_proj`,
];

describe('adapterModules', () => {
  test('names are the last parts of modules, patterns are for whole ones', () => {
    expect(names({})).toEqual([...attention(0), ...attention(1)]);
    expect(names({ target_modules: '.*\\.1\\..*\\.(q|v)_proj' })).toEqual(attention(1));
    expect(names({ target_modules: ['model.layers.0.self_attn.q_proj'] })).toEqual(attention(0).slice(0, 1));
    expect(names({ target_modules: 'all-linear' })).toHaveLength(14);
    expect(names({ target_modules: ['lm_head'] })).toEqual(['lm_head']);
    // A critic's head is stored whole, and has no adapter.
    const critic = layoutOf(valueConfig(smallConfig));
    expect(
      adapterModules({ ...json, target_modules: 'all-linear', modules_to_save: ['value_head'] }, critic),
    ).toHaveLength(14);
    expect(() => adapterModules({ ...json, modules_to_save: ['value_head', 'embed_tokens'] }, critic)).toThrow(
      UnsupportedAdapter,
    );
  });

  test('layers and exclusions', () => {
    expect(names({ layers_to_transform: [1] })).toEqual(attention(1));
    expect(names({ layers_to_transform: 0 })).toEqual(attention(0));
    expect(names({ exclude_modules: ['v_proj'] })).toEqual([attention(0)[0], attention(1)[0]]);
  });

  test('scaling of a module', () => {
    const scalings = (change: Record<string, unknown>): number[] =>
      adapterModules({ ...json, ...change }, base).map(({ scaling }) => scaling);
    expect(scalings({})).toEqual([2, 2, 2, 2]);
    expect(scalings({ use_rslora: true, r: 4 })).toEqual([8, 8, 8, 8]);
    expect(scalings({ rank_pattern: { q_proj: 2 }, alpha_pattern: { 'layers.1.self_attn.v_proj': 4 } })).toEqual([
      8, 2, 8, 0.5,
    ]);
  });

  test.each([
    ['peft_type', { peft_type: 'IA3' }],
    ['use_dora', { use_dora: true }],
    ['arrow_config', { arrow_config: { top_k: 2 } }],
    ['kasa_config', { kasa_config: {} }],
    ['bias', { bias: 'all' }],
    ['modules_to_save', { modules_to_save: ['lm_head'] }],
    ['modules_to_save', { modules_to_save: ['value_head'] }],
    ['init_lora_weights', { init_lora_weights: 'pissa_niter_4' }],
    ['r', { r: 0 }],
    ['rank_pattern', { rank_pattern: { q_proj: 0 } }],
    ['alpha_pattern', { alpha_pattern: { v_proj: '16' } }],
    ['target_modules', { target_modules: ['c_attn'] }],
    ['target_modules', { target_modules: ['embed_tokens'] }],
    ['target_modules', { target_modules: null }],
  ])('refuses %s', (field, change) => {
    expect(() => names(change)).toThrow(UnsupportedAdapter);
    expect(() => names(change)).toThrow(`adapter_config.json: ${field} = `);
  });
});
