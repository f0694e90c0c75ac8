/** One policy version in TensorFlow's memory, in the decoder's layout. It never changes. */

import { Frame, type TensorId } from '../../../graph/device-tensors.ts';
import { type ModelConfig, hasBiases } from '../../../model/config.ts';
import type { Weights } from '../../../model/weights.ts';
import { type FusedLayer, fuseWeights, paddedIntermediate } from './fused-weights.ts';

/** Up to this score, `exp` and sums of its results stay in the normal range of float32. */
const safeScore = 40;

const everyFamily = ['qk', 'v', 'rope', 'output', 'gate', 'up', 'down'] as const;
const biases = ['qkBias', 'vBias'] as const;
export type LayerWeight = (typeof everyFamily)[number];
export type LayerBias = (typeof biases)[number];

/** The names of a layer's tensors, in the order in which the session takes them. */
export const layerTensors = (config: ModelConfig): ReadonlyArray<LayerWeight | LayerBias> =>
  hasBiases(config) ? [...everyFamily, ...biases] : everyFamily;

export function layerShapes(
  config: ModelConfig,
  positions: number,
): Readonly<Record<LayerWeight | LayerBias, readonly [number, number]>> {
  const { hiddenSize, heads, kvHeads, headDim } = config;
  const rotated = (heads + kvHeads) * 2 * headDim;
  const inner = paddedIntermediate(config);
  return {
    qk: [hiddenSize, rotated],
    v: [hiddenSize, kvHeads * headDim],
    rope: [positions, rotated],
    output: [heads * headDim, hiddenSize],
    gate: [hiddenSize, inner],
    up: [hiddenSize, inner],
    down: [inner, hiddenSize],
    qkBias: [1, rotated],
    vBias: [1, kvHeads * headDim],
  };
}

export interface ModelOptions {
  /** Positions in the rotary tables: the longest context. */
  readonly positions: number;
  /** Forces the path for large scores; for tests. */
  readonly alwaysShift?: boolean;
}

export class SamplerModel {
  readonly config: ModelConfig;
  readonly positions: number;
  /** Embedding `[vocab, hidden]`, head `[hidden, vocab]`, then `layerTensors` of each layer. */
  readonly tensors: readonly TensorId[];
  /** True if attention scores may be too large for `exp`. */
  readonly shifted: boolean;
  readonly #frame = new Frame();

  constructor(config: ModelConfig, weights: Weights, options: ModelOptions) {
    const { hiddenSize, vocabSize } = config;
    this.config = config;
    this.positions = options.positions;
    const fused = fuseWeights(config, weights, options.positions);
    this.shifted = options.alwaysShift === true || fused.layers.some(({ scoreBound }) => !(scoreBound <= safeScore));
    this.tensors = [
      this.#frame.floats([vocabSize, hiddenSize], fused.embedding),
      this.#frame.floats([hiddenSize, vocabSize], fused.head),
      ...fused.layers.flatMap((layer) => this.#upload(layer)),
    ];
  }

  dispose(): void {
    this.#frame.end();
  }

  #upload(layer: FusedLayer): TensorId[] {
    const shapes = layerShapes(this.config, this.positions);
    return layerTensors(this.config).map((name) => this.#frame.floats(shapes[name], layer[name] ?? new Float32Array()));
  }
}
