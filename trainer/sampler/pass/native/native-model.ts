/** A policy's weights for the compiled decoder, packed piece by piece while they are read: memory holds them once. */

import { type ModelConfig, hasBiases, hasHeadNorms } from '../../../model/config.ts';
import type { WeightPieces } from '../../../model/weights.ts';
import { ropeAngles } from '../../rope-table.ts';
import type { DecoderModel } from '../decoder.ts';
import { WeightsMismatch } from '../weights-mismatch.ts';
import type { Handle, NativeBinding } from './native-binding.ts';

export const shapeOf = (config: ModelConfig, positions: number): Int32Array =>
  Int32Array.of(
    config.vocabSize,
    config.hiddenSize,
    config.intermediateSize,
    config.layers,
    config.heads,
    config.kvHeads,
    config.headDim,
    positions,
    Number(hasHeadNorms(config)),
    Number(hasBiases(config)),
    Number(config.tiedEmbeddings),
  );

/** The angles of the model that was loaded last: a run's versions share them, and those of a long context take time. */
let lastAngles: { readonly key: string; readonly angles: ReturnType<typeof ropeAngles> } | undefined;

function anglesOf(positions: number, config: ModelConfig): ReturnType<typeof ropeAngles> {
  const { headDim, ropeTheta, ropeScaling } = config;
  const key = JSON.stringify([positions, headDim, ropeTheta, ropeScaling]);
  if (lastAngles?.key !== key) lastAngles = { key, angles: ropeAngles(positions, config) };
  return lastAngles.angles;
}

interface Wanted {
  /** Its number in `model.h`. */
  readonly number: number;
  readonly shape: readonly number[];
}

/** A layer's tensors, in the order of `LayerTensor` in `model.h`; `undefined` if the family has no such tensor. */
function layerShapes(
  config: ModelConfig,
): ReadonlyArray<readonly [name: string, shape: readonly number[] | undefined]> {
  const { hiddenSize: hidden, intermediateSize: inner, heads, kvHeads, headDim } = config;
  const [queries, keys] = [heads * headDim, kvHeads * headDim];
  const headNorm = hasHeadNorms(config) ? [headDim] : undefined;
  const bias = (size: number): number[] | undefined => (hasBiases(config) ? [size] : undefined);
  return [
    ['input_layernorm.weight', [hidden]],
    ['self_attn.q_proj.weight', [queries, hidden]],
    ['self_attn.k_proj.weight', [keys, hidden]],
    ['self_attn.v_proj.weight', [keys, hidden]],
    ['self_attn.o_proj.weight', [hidden, queries]],
    ['post_attention_layernorm.weight', [hidden]],
    ['mlp.gate_proj.weight', [inner, hidden]],
    ['mlp.up_proj.weight', [inner, hidden]],
    ['mlp.down_proj.weight', [hidden, inner]],
    ['self_attn.q_norm.weight', headNorm],
    ['self_attn.k_norm.weight', headNorm],
    ['self_attn.q_proj.bias', bias(queries)],
    ['self_attn.k_proj.bias', bias(keys)],
    ['self_attn.v_proj.bias', bias(keys)],
  ];
}

function wantedTensors(config: ModelConfig): ReadonlyMap<string, Wanted> {
  const { vocabSize, hiddenSize, layers, tiedEmbeddings } = config;
  const table = [vocabSize, hiddenSize];
  // In the order of `Tensor` in `model.h`; the layers' tensors follow.
  const few = [
    ['model.embed_tokens.weight', table],
    ['model.norm.weight', [hiddenSize]],
    ['lm_head.weight', tiedEmbeddings ? undefined : table],
  ] as const;
  const ofLayers = Array.from({ length: layers }, (_, i) =>
    layerShapes(config).map(([name, shape]) => [`model.layers.${i}.${name}`, shape] as const),
  );
  const numbered = [...few, ...ofLayers.flat()].map(([name, shape], number) => ({ name, shape, number }));
  return new Map(
    numbered.flatMap(({ name, shape, number }) => (shape === undefined ? [] : [[name, { number, shape }]])),
  );
}

export class NativeModel implements DecoderModel {
  readonly config: ModelConfig;
  readonly handle: Handle;
  readonly #binding: NativeBinding;

  private constructor(binding: NativeBinding, config: ModelConfig, positions: number) {
    const { cos, sin } = anglesOf(positions, config);
    this.#binding = binding;
    this.config = config;
    this.handle = binding.createModel(shapeOf(config, positions), config.normEpsilon, cos, sin);
  }

  /** Ignores tensors that the model does not need. Errors: `WeightsMismatch`, those of reading the weights. */
  static async load(
    binding: NativeBinding,
    config: ModelConfig,
    weights: WeightPieces,
    positions: number,
  ): Promise<NativeModel> {
    const model = new NativeModel(binding, config, positions);
    try {
      await model.#fill(weights);
      return model;
    } catch (error) {
      model.dispose();
      throw error;
    }
  }

  dispose(): void {
    this.#binding.dispose(this.handle);
  }

  async #fill(weights: WeightPieces): Promise<void> {
    const wanted = wantedTensors(this.config);
    const missing = new Set(wanted.keys());
    for await (const [name, { shape, data, from = 0 }] of weights) {
      const known = wanted.get(name);
      if (known === undefined) continue;
      if (shape.join() !== known.shape.join()) throw new WeightsMismatch(name, known.shape, shape);
      this.#binding.fillModel(this.handle, known.number, from, data);
      missing.delete(name);
    }
    for (const name of missing) throw new WeightsMismatch(name, wanted.get(name)?.shape ?? [], undefined);
  }
}
