/** One policy version on the device, ready to be multiplied with: constants, never changed after they are made. */

import type { ModelConfig } from '../../model/config.ts';
import type { Weights } from '../../model/weights.ts';
import { pageSize } from './batch-plan.ts';
import { type FusedLayer, fuseWeights, paddedIntermediate } from './fused-weights.ts';
import { Frame, type TensorId } from './raw-ops.ts';

export interface LayerConstants {
  readonly qk: TensorId;
  readonly v: TensorId;
  readonly rope: TensorId;
  readonly output: TensorId;
  readonly gate: TensorId;
  readonly up: TensorId;
  readonly down: TensorId;
  /** Scores may be too large for `exp` as they are: their maximum is taken off first. */
  readonly shifted: boolean;
}

/** Below it neither `exp` nor a sum of its results leaves the normal range of float32. */
const safeScore = 40;
/** Added to scores that a query may not see: `exp` of it is exactly 0. */
const hidden = -1e9;

export interface ModelOptions {
  /** Positions that the rotary tables cover: the longest context. */
  readonly positions: number;
  /** Forces the path for large scores; for tests. */
  readonly alwaysShift?: boolean;
}

export class SamplerModel {
  readonly config: ModelConfig;
  readonly positions: number;
  readonly embedding: TensorId;
  readonly head: TensorId;
  readonly layers: readonly LayerConstants[];
  /** `[pageSize + 1, pageSize]`: row `n` lets a query see the first `n` positions of a page. */
  readonly masks: TensorId;
  /** `[hidden, 1]`, each `1 / hidden`: a mean as a product. */
  readonly meanOfHidden: TensorId;
  /** `[2 * headDim, 1]`: the mean square of a head whose halves appear twice. */
  readonly meanOfHead: TensorId;
  /** `[2 * headDim, headDim]`: adds the two rotary products. */
  readonly addHalves: TensorId;
  /** `[pageSize, 1]` */
  readonly ones: TensorId;
  readonly epsilon: TensorId;
  readonly #frame = new Frame();
  readonly #integers = new Map<string, TensorId>();

  constructor(config: ModelConfig, weights: Weights, options: ModelOptions) {
    const { hiddenSize, headDim, vocabSize } = config;
    this.config = config;
    this.positions = options.positions;
    const fused = fuseWeights(config, weights, options.positions);
    this.embedding = this.#frame.floats([vocabSize, hiddenSize], fused.embedding);
    this.head = this.#frame.floats([hiddenSize, vocabSize], fused.head);
    this.layers = fused.layers.map((layer) => this.#upload(layer, options.alwaysShift === true));
    this.masks = this.#frame.floats([pageSize + 1, pageSize], maskTable());
    this.meanOfHidden = this.#frame.floats([hiddenSize, 1], new Float32Array(hiddenSize).fill(1 / hiddenSize));
    this.meanOfHead = this.#frame.floats([2 * headDim, 1], new Float32Array(2 * headDim).fill(0.5 / headDim));
    this.addHalves = this.#frame.floats([2 * headDim, headDim], stackedIdentity(headDim));
    this.ones = this.#frame.floats([pageSize, 1], new Float32Array(pageSize).fill(1));
    this.epsilon = this.#frame.floats([], Float32Array.of(config.normEpsilon));
  }

  /** A small constant vector of integers: a shape, a permutation, sizes. */
  integers(...values: readonly number[]): TensorId {
    return this.#integer(values.join(), [values.length], values);
  }

  /** A constant scalar integer: an axis. */
  integer(value: number): TensorId {
    return this.#integer(`scalar ${value}`, [], [value]);
  }

  dispose(): void {
    this.#frame.end();
  }

  #integer(key: string, shape: readonly number[], values: readonly number[]): TensorId {
    const known = this.#integers.get(key);
    if (known !== undefined) return known;
    const id = this.#frame.ints(shape, Int32Array.from(values));
    this.#integers.set(key, id);
    return id;
  }

  #upload(layer: FusedLayer, alwaysShift: boolean): LayerConstants {
    const { hiddenSize, heads, kvHeads, headDim } = this.config;
    const rotated = (heads + kvHeads) * 2 * headDim;
    const inner = paddedIntermediate(this.config);
    const frame = this.#frame;
    return {
      qk: frame.floats([hiddenSize, rotated], layer.qk),
      v: frame.floats([hiddenSize, kvHeads * headDim], layer.v),
      rope: frame.floats([this.positions, rotated], layer.rope),
      output: frame.floats([heads * headDim, hiddenSize], layer.output),
      gate: frame.floats([hiddenSize, inner], layer.gate),
      up: frame.floats([hiddenSize, inner], layer.up),
      down: frame.floats([inner, hiddenSize], layer.down),
      shifted: alwaysShift || !(layer.scoreBound <= safeScore),
    };
  }
}

function maskTable(): Float32Array {
  const table = new Float32Array((pageSize + 1) * pageSize);
  for (let seen = 0; seen <= pageSize; seen++) table.fill(hidden, seen * pageSize + seen, (seen + 1) * pageSize);
  return table;
}

function stackedIdentity(size: number): Float32Array {
  const out = new Float32Array(2 * size * size);
  for (let i = 0; i < 2 * size; i++) out[i * size + (i % size)] = 1;
  return out;
}
