/** A random policy of any family and shape for tests: seeded, with weights large enough that attention is not flat. */

import { type ModelConfig, hasBiases, hasHeadNorms } from '../../../trainer/model/config.ts';
import type { Weights } from '../../../trainer/model/weights.ts';

export const smallShape: ModelConfig = {
  family: 'qwen3',
  vocabSize: 512,
  hiddenSize: 128,
  intermediateSize: 384,
  layers: 4,
  heads: 4,
  kvHeads: 1,
  headDim: 32,
  normEpsilon: 1e-6,
  ropeTheta: 10_000,
  maxPositions: 1024,
  tiedEmbeddings: true,
  initializerRange: 0.02,
  eosTokenIds: [],
};

/** mulberry32 by Tommy Ettinger: uniform in [-1, 1). */
export function uniformNoise(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 31 - 1;
  };
}

export function randomIds(seed: number, count: number, vocabSize: number): number[] {
  const next = uniformNoise(seed);
  return Array.from({ length: count }, () => Math.floor(((next() + 1) / 2) * vocabSize));
}

function layerShapes(config: ModelConfig, prefix: string): Array<[string, number[]]> {
  const { hiddenSize: d, intermediateSize: inner, heads, kvHeads, headDim } = config;
  const headNorms: Array<[string, number[]]> = [
    [`${prefix}self_attn.q_norm.weight`, [headDim]],
    [`${prefix}self_attn.k_norm.weight`, [headDim]],
  ];
  const biases: Array<[string, number[]]> = [
    [`${prefix}self_attn.q_proj.bias`, [heads * headDim]],
    [`${prefix}self_attn.k_proj.bias`, [kvHeads * headDim]],
    [`${prefix}self_attn.v_proj.bias`, [kvHeads * headDim]],
  ];
  return [
    [`${prefix}self_attn.q_proj.weight`, [heads * headDim, d]],
    [`${prefix}self_attn.k_proj.weight`, [kvHeads * headDim, d]],
    [`${prefix}self_attn.v_proj.weight`, [kvHeads * headDim, d]],
    [`${prefix}self_attn.o_proj.weight`, [d, heads * headDim]],
    [`${prefix}mlp.gate_proj.weight`, [inner, d]],
    [`${prefix}mlp.up_proj.weight`, [inner, d]],
    [`${prefix}mlp.down_proj.weight`, [d, inner]],
    ...(hasHeadNorms(config) ? headNorms : []),
    ...(hasBiases(config) ? biases : []),
    [`${prefix}input_layernorm.weight`, [d]],
    [`${prefix}post_attention_layernorm.weight`, [d]],
  ];
}

export function randomWeights(config: ModelConfig, seed: number): Weights {
  const next = uniformNoise(seed);
  const shapes: Array<[string, number[]]> = [
    ['model.embed_tokens.weight', [config.vocabSize, config.hiddenSize]],
    ['model.norm.weight', [config.hiddenSize]],
    ...Array.from({ length: config.layers }, (_, i) => layerShapes(config, `model.layers.${i}.`)).flat(),
  ];
  if (!config.tiedEmbeddings) shapes.push(['lm_head.weight', [config.vocabSize, config.hiddenSize]]);
  const weights: Weights = new Map();
  for (const [name, shape] of shapes) {
    const norm = shape.length === 1;
    const scale = norm ? 0.5 : 1.7 / Math.sqrt(shape[1] ?? 1);
    const data = Float32Array.from({ length: shape.reduce((a, b) => a * b) }, () => (norm ? 1 : 0) + scale * next());
    weights.set(name, { shape, data });
  }
  return weights;
}
