/**
 * The decoder on processors: compiled code (`trainer/native`) over packed weights. Each element of a result is computed
 * by operations whose order depends on its own row alone, so no shape has to be padded or avoided.
 */

import { availableParallelism } from 'node:os';
import { type ModelConfig, hasBiases, hasHeadNorms } from '../../../model/config.ts';
import type { Weights } from '../../../model/weights.ts';
import { ropeAngles } from '../../rope-table.ts';
import type { Decoder, DecoderKind, DecoderModel, PassResult, PassRow } from '../decoder.ts';
import { type Handle, type NativeBinding, loadNativeBinding } from './native-binding.ts';
import { flattenRows } from './native-plan.ts';
import { tensorOf } from '../weights-mismatch.ts';

const blockSize = 16;

/** What TensorFlow takes for one op: the share of the machine that is the engine's. */
const threads = (): number => Number(process.env['TF_NUM_INTRAOP_THREADS']) || availableParallelism();

const shapeOf = (config: ModelConfig, positions: number): Int32Array =>
  Int32Array.of(
    config.vocabSize, config.hiddenSize, config.intermediateSize, config.layers, config.heads, config.kvHeads, config.headDim,
    positions, Number(hasHeadNorms(config)), Number(hasBiases(config)),
  );

function layerTensors(config: ModelConfig, weights: Weights, index: number): Float32Array[] {
  const { hiddenSize: hidden, intermediateSize: inner, heads, kvHeads, headDim } = config;
  const tensor = (name: string, ...shape: number[]): Float32Array => tensorOf(weights, `model.layers.${index}.${name}`, shape);
  return [
    tensor('input_layernorm.weight', hidden),
    tensor('self_attn.q_proj.weight', heads * headDim, hidden),
    tensor('self_attn.k_proj.weight', kvHeads * headDim, hidden),
    tensor('self_attn.v_proj.weight', kvHeads * headDim, hidden),
    tensor('self_attn.o_proj.weight', hidden, heads * headDim),
    tensor('post_attention_layernorm.weight', hidden),
    tensor('mlp.gate_proj.weight', inner, hidden),
    tensor('mlp.up_proj.weight', inner, hidden),
    tensor('mlp.down_proj.weight', hidden, inner),
    ...(hasHeadNorms(config) ? [tensor('self_attn.q_norm.weight', headDim), tensor('self_attn.k_norm.weight', headDim)] : []),
    ...(hasBiases(config)
      ? [tensor('self_attn.q_proj.bias', heads * headDim), tensor('self_attn.k_proj.bias', kvHeads * headDim), tensor('self_attn.v_proj.bias', kvHeads * headDim)]
      : []),
  ];
}

/** In the order in which the compiled model reads them. */
function modelTensors(config: ModelConfig, weights: Weights, positions: number): Float32Array[] {
  const { hiddenSize, vocabSize, layers, tiedEmbeddings } = config;
  const { cos, sin } = ropeAngles(positions, config);
  const table = (name: string): Float32Array => tensorOf(weights, name, [vocabSize, hiddenSize]);
  const embedding = table('model.embed_tokens.weight');
  return [
    cos, sin, embedding,
    tensorOf(weights, 'model.norm.weight', [hiddenSize]),
    tiedEmbeddings ? embedding : table('lm_head.weight'),
    ...Array.from({ length: layers }, (_, i) => layerTensors(config, weights, i)).flat(),
  ];
}

export class NativeModel implements DecoderModel {
  readonly config: ModelConfig;
  readonly handle: Handle;
  readonly #binding: NativeBinding;

  constructor(binding: NativeBinding, config: ModelConfig, weights: Weights, positions: number) {
    this.#binding = binding;
    this.config = config;
    this.handle = binding.createModel(shapeOf(config, positions), config.normEpsilon, modelTensors(config, weights, positions));
  }

  dispose(): void {
    this.#binding.dispose(this.handle);
  }
}

export class NativeDecoder implements Decoder<NativeModel> {
  readonly #binding: NativeBinding;
  readonly #handle: Handle;
  readonly #limits: { readonly vocabulary: number; readonly positions: number; readonly blocks: number; readonly blockSize: number };

  constructor(binding: NativeBinding, config: ModelConfig, positions: number, blocks: number) {
    this.#binding = binding;
    this.#limits = { vocabulary: config.vocabSize, positions, blocks, blockSize };
    this.#handle = binding.createDecoder(shapeOf(config, positions), config.normEpsilon, blocks, threads());
  }

  forward(model: NativeModel, rows: readonly PassRow[]): PassResult[] {
    const plan = flattenRows(rows, this.#limits);
    this.#binding.forward(
      this.#handle, model.handle, plan.ids, plan.starts, plan.begins, plan.tables, plan.tableStarts,
      plan.endTokens, plan.temperatures, plan.uniforms, plan.limit, plan.chosen, plan.logprobs, plan.logits,
    );
    return plan.results();
  }

  copyBlock(from: number, to: number): void {
    this.#binding.copyBlock(this.#handle, from, to);
  }

  dispose(): void {
    this.#binding.dispose(this.#handle);
  }
}

/** Errors: `NoNativeDecoder`. */
export function nativeDecoderKind(): DecoderKind<NativeModel> {
  const binding = loadNativeBinding();
  return {
    blockSize,
    model: (config, weights, positions) => new NativeModel(binding, config, weights, positions),
    decoder: (config, positions, blocks) => new NativeDecoder(binding, config, positions, blocks),
  };
}
