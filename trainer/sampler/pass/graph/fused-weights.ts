/**
 * A policy's weights in the sampler's layout: input-major, norm weights folded in, queries and keys side by side. They
 * are a pure function of the Hugging Face tensors.
 */

import { type ModelConfig, hasBiases, hasHeadNorms } from '../../../model/config.ts';
import type { Weights } from '../../../model/weights.ts';
import { ropeTable } from '../../rope-table.ts';
import { tensorOf } from '../weights-mismatch.ts';

export interface FusedLayer {
  /** `[hidden, (heads + kvHeads) * 2 * headDim]`: each query and key head, then the same head with swapped halves. */
  readonly qk: Float32Array;
  /** `[hidden, kvHeads * headDim]` */
  readonly v: Float32Array;
  /** `[1, (heads + kvHeads) * 2 * headDim]` and `[1, kvHeads * headDim]`, in families with biases. */
  readonly qkBias?: Float32Array;
  readonly vBias?: Float32Array;
  /** `[positions, (heads + kvHeads) * 2 * headDim]` */
  readonly rope: Float32Array;
  /** `[heads * headDim, hidden]` */
  readonly output: Float32Array;
  /** `[hidden, paddedIntermediate]` */
  readonly gate: Float32Array;
  /** `[hidden, paddedIntermediate]` */
  readonly up: Float32Array;
  /** `[paddedIntermediate, hidden]` */
  readonly down: Float32Array;
  /** Upper bound of the magnitude of this layer's attention scores. */
  readonly scoreBound: number;
}

export interface FusedWeights {
  /** `[vocab, hidden]` */
  readonly embedding: Float32Array;
  readonly layers: readonly FusedLayer[];
  /** `[hidden, vocab]` */
  readonly head: Float32Array;
}

/** Elementwise ops give other bits in a tensor's last elements if their number is not a multiple of this. */
export const lanes = 16;

export const paddedIntermediate = (config: ModelConfig): number => Math.ceil(config.intermediateSize / lanes) * lanes;

/** Writes row `from` of `[out, in]` as column `to` of `[in, columns]`, each input scaled by `scale`. */
function putColumn(
  target: Float32Array,
  columns: number,
  to: number,
  source: Float32Array,
  from: number,
  scale: Float32Array | undefined,
  inputs: number,
): void {
  for (let i = 0; i < inputs; i++) {
    target[i * columns + to] = (source[from * inputs + i] ?? 0) * (scale?.[i] ?? 1);
  }
}

function fuseQueriesAndKeys(config: ModelConfig, weights: Weights, prefix: string, norm: Float32Array): Float32Array {
  const { hiddenSize: hidden, heads, kvHeads, headDim } = config;
  const q = tensorOf(weights, `${prefix}self_attn.q_proj.weight`, [heads * headDim, hidden]);
  const k = tensorOf(weights, `${prefix}self_attn.k_proj.weight`, [kvHeads * headDim, hidden]);
  const columns = (heads + kvHeads) * 2 * headDim;
  const out = new Float32Array(hidden * columns);
  for (let z = 0; z < heads + kvHeads; z++) {
    const [source, first] = z < heads ? [q, z * headDim] : [k, (z - heads) * headDim];
    for (let i = 0; i < headDim; i++) {
      const at = z * 2 * headDim;
      putColumn(out, columns, at + i, source, first + i, norm, hidden);
      putColumn(out, columns, at + headDim + i, source, first + ((i + headDim / 2) % headDim), norm, hidden);
    }
  }
  return out;
}

/** `[outputs, inputs]` as `[paddedInputs, paddedOutputs]`, padded with zeros, inputs scaled by `norm`. */
function inputMajor(
  source: Float32Array,
  [outputs, inputs]: readonly [number, number],
  { norm, columns = outputs, rows = inputs }: { norm?: Float32Array; columns?: number; rows?: number } = {},
): Float32Array {
  const out = new Float32Array(rows * columns);
  for (let o = 0; o < outputs; o++) putColumn(out, columns, o, source, o, norm, inputs);
  return out;
}

function fuseMlp(config: ModelConfig, weights: Weights, prefix: string): Pick<FusedLayer, 'gate' | 'up' | 'down'> {
  const { hiddenSize: hidden, intermediateSize: inner } = config;
  const padded = paddedIntermediate(config);
  const norm = tensorOf(weights, `${prefix}post_attention_layernorm.weight`, [hidden]);
  const matrix = (name: string, shape: readonly [number, number]): Float32Array =>
    tensorOf(weights, `${prefix}mlp.${name}_proj.weight`, shape);
  return {
    gate: inputMajor(matrix('gate', [inner, hidden]), [inner, hidden], { norm, columns: padded }),
    up: inputMajor(matrix('up', [inner, hidden]), [inner, hidden], { norm, columns: padded }),
    down: inputMajor(matrix('down', [hidden, inner]), [hidden, inner], { rows: padded }),
  };
}

function fuseBiases(config: ModelConfig, weights: Weights, prefix: string): Pick<FusedLayer, 'qkBias' | 'vBias'> {
  const { heads, kvHeads, headDim } = config;
  if (!hasBiases(config)) return {};
  const bias = (name: string, size: number): Float32Array =>
    tensorOf(weights, `${prefix}self_attn.${name}_proj.bias`, [size]);
  const [q, k] = [bias('q', heads * headDim), bias('k', kvHeads * headDim)];
  const both = Float32Array.from([...q, ...k]);
  const qkBias = new Float32Array(2 * both.length);
  for (let i = 0; i < qkBias.length; i++) {
    const [head, at] = [Math.floor(i / (2 * headDim)), i % (2 * headDim)];
    const swapped = at < headDim ? at : (at - headDim + headDim / 2) % headDim;
    qkBias[i] = both[head * headDim + swapped] ?? 0;
  }
  return { qkBias, vBias: bias('v', kvHeads * headDim) };
}

const largest = (values: Float32Array): number => values.reduce((a, b) => Math.max(a, Math.abs(b)), 0);

function fuseLayer(config: ModelConfig, weights: Weights, index: number, positions: number): FusedLayer {
  const { hiddenSize: hidden, heads, kvHeads, headDim } = config;
  const prefix = `model.layers.${index}.`;
  const norm = tensorOf(weights, `${prefix}input_layernorm.weight`, [hidden]);
  const headNorm = (name: string): Float32Array =>
    hasHeadNorms(config)
      ? tensorOf(weights, `${prefix}self_attn.${name}_norm.weight`, [headDim])
      : new Float32Array(headDim).fill(1);
  const [queryNorm, keyNorm] = [headNorm('q'), headNorm('k')];
  const valueShape = [kvHeads * headDim, hidden] as const;
  const outputShape = [hidden, heads * headDim] as const;
  return {
    qk: fuseQueriesAndKeys(config, weights, prefix, norm),
    ...fuseBiases(config, weights, prefix),
    v: inputMajor(tensorOf(weights, `${prefix}self_attn.v_proj.weight`, valueShape), valueShape, { norm }),
    rope: ropeTable(config, positions, queryNorm, keyNorm),
    output: inputMajor(tensorOf(weights, `${prefix}self_attn.o_proj.weight`, outputShape), outputShape),
    ...fuseMlp(config, weights, prefix),
    // Normalised heads have length sqrt(headDim) before their weights (Cauchy and Schwarz). Others have no bound.
    scoreBound: hasHeadNorms(config) ? largest(queryNorm) * largest(keyNorm) * Math.sqrt(headDim) : Infinity,
  };
}

/** Fuses a policy's weights, with rotary tables for `positions`. Errors: `WeightsMismatch`. */
export function fuseWeights(config: ModelConfig, weights: Weights, positions: number): FusedWeights {
  const { hiddenSize: hidden, vocabSize: vocab } = config;
  const embedding = tensorOf(weights, 'model.embed_tokens.weight', [vocab, hidden]);
  const output = config.tiedEmbeddings ? embedding : tensorOf(weights, 'lm_head.weight', [vocab, hidden]);
  const norm = tensorOf(weights, 'model.norm.weight', [hidden]);
  const layers = Array.from({ length: config.layers }, (_, i) => fuseLayer(config, weights, i, positions));
  return { embedding, layers, head: inputMajor(output, [vocab, hidden], { norm }) };
}
