/** A policy's weights on the device: one flat vector, and the decoder's matrices, which are made from it. */

import { Adapter } from '../lora/adapter.ts';
import { moduleOf } from '../lora/adapter-config.ts';
import type { AdapterWeights } from '../lora/adapter-layout.ts';
import { tf } from '../tensorflow.ts';
import { type ModelConfig, hasBiases, hasHeadNorms } from './config.ts';
import { type Tensor, add, concat, mul, reshape, scope, slice } from './layers/kernels.ts';
import type { MlpWeights } from './layers/mlp.ts';
import {
  type Layout,
  type Segment,
  type Trainable,
  layoutOf,
  packFlat,
  refuseUnknown,
  unpackFlat,
} from './parameters.ts';
import { type HeadWeights, headWeights, scoreBound } from './layers/rotary.ts';
import type { Weights } from './weights.ts';

export interface LayerWeights extends MlpWeights {
  /** [(heads + kvHeads) · headDim, hidden] and [kvHeads · headDim, hidden], the norm's weight folded in. */
  readonly qk: Tensor;
  readonly v: Tensor;
  /** [(heads + kvHeads) · headDim] and [kvHeads · headDim], in families with biases. */
  readonly qkBias: Tensor | undefined;
  readonly vBias: Tensor | undefined;
  readonly headWeights: HeadWeights;
  /** [hidden, heads · headDim]. */
  readonly o: Tensor;
}

/** Made anew after every step. A matrix that follows a norm is W · diag(norm), so the norm costs no multiplication. */
export interface DecoderWeights {
  readonly embed: Tensor;
  readonly layers: readonly LayerWeights[];
  /** [vocabulary, hidden], the final norm's weight folded in. */
  readonly head: Tensor;
  /** No attention score exceeds it. */
  readonly scoreBound: number;
}

/** The norms, and the matrices that each one is folded into, by segment keys. */
export function foldedInto(
  config: ModelConfig,
): ReadonlyArray<{ readonly norm: string; readonly matrices: readonly string[] }> {
  const layers = Array.from({ length: config.layers }, (_, i) => [
    { norm: `${i}.attentionNorm`, matrices: [`${i}.qk`, `${i}.v`] },
    { norm: `${i}.mlpNorm`, matrices: [`${i}.gate`, `${i}.up`] },
  ]);
  return [...layers.flat(), { norm: 'finalNorm', matrices: ['head'] }];
}

export class Policy implements Trainable {
  readonly config: ModelConfig;
  /** If there is one, only the adapter is trained. */
  readonly adapter: Adapter | undefined;
  readonly layout: Layout;
  #flat: Tensor;
  #segments: ReadonlyMap<string, Segment>;
  #weights: DecoderWeights | undefined;

  /** Errors: `WrongWeights`, `UnsupportedAdapter`. */
  constructor(config: ModelConfig, weights: Weights, adapter?: AdapterWeights) {
    this.config = config;
    this.layout = layoutOf(config);
    refuseUnknown(this.layout, weights, config.tiedEmbeddings);
    this.#segments = new Map(this.layout.segments.map((segment) => [segment.key, segment]));
    this.adapter = adapter === undefined ? undefined : new Adapter(this.layout, adapter, () => this.#dropWeights());
    try {
      this.#flat = tf.keep(tf.tensor1d(packFlat(this.layout, weights)));
    } catch (error) {
      this.adapter?.dispose();
      throw error;
    }
  }

  get trainable(): Trainable {
    return this.adapter ?? this;
  }

  /** [layout.size]; owned by the policy. */
  get flat(): Tensor {
    return this.#flat;
  }

  /** Replaces the flat vector with `next`, of the same size, and owns it. */
  replace(next: Tensor): void {
    this.#dropWeights();
    this.#flat.dispose();
    this.#flat = tf.keep(next);
  }

  has(key: string): boolean {
    return this.#segments.has(key);
  }

  segment(key: string): Segment {
    const segment = this.#segments.get(key);
    if (segment === undefined) throw new Error(`the policy has no segment ${key}`);
    return segment;
  }

  /** A segment as [rows, columns] (a vector as [columns]), without a copy; a tied head is the embedding. */
  view(key: string): Tensor {
    const { offset, size, rows, columns } = this.segment(key === 'head' && this.config.tiedEmbeddings ? 'embed' : key);
    return scope(() => reshape(slice(this.#flat, [offset], [size]), rows === 1 ? [columns] : [rows, columns]));
  }

  /** A segment with its modules' adapters added; or the adapter's own copy, if it holds the whole module. */
  adapted(key: string): Tensor {
    const { adapter } = this;
    if (adapter === undefined || !this.has(key)) return this.view(key);
    const { parts, columns, offset } = this.segment(key);
    const [first] = parts.map(({ name }) => moduleOf(name));
    if (first !== undefined && adapter.isSaved(first)) return adapter.saved(first);
    const whole = this.view(key);
    if (whole.shape.length < 2) return whole;
    return scope(() => {
      const deltas = parts.map(({ name }) => adapter.delta(moduleOf(name)));
      if (deltas.every((delta) => delta === undefined)) return whole;
      const rows = parts.map((part, i) => {
        const own = slice(whole, [(part.offset - offset) / columns, 0], [part.size / columns, -1]);
        const delta = deltas[i];
        return delta === undefined ? own : add(own, delta);
      });
      return concat(rows, 0);
    });
  }

  weights(): DecoderWeights {
    this.#weights ??= this.#makeWeights();
    return this.#weights;
  }

  /** Hugging Face's tensors, copied off the device. */
  download(): Weights {
    return unpackFlat(this.layout, this.#flat.dataSync() as Float32Array);
  }

  /** Hugging Face's tensors with the adapter added to them. */
  merged(): Weights {
    const weights = this.download();
    for (const { key, parts, offset } of this.layout.segments) {
      if (!parts.some(({ name }) => this.adapter?.changes(moduleOf(name)))) continue;
      const tensor = scope(() => this.adapted(key));
      const data = tensor.dataSync() as Float32Array;
      tensor.dispose();
      for (const { name, shape, offset: at, size } of parts) {
        weights.set(name, { shape: [...shape], data: data.subarray(at - offset, at - offset + size) });
      }
    }
    return weights;
  }

  dispose(): void {
    this.adapter?.dispose();
    this.#dropWeights();
    this.#flat.dispose();
  }

  #makeWeights(): DecoderWeights {
    const bounds: number[] = [];
    const made = scope(() => {
      const folded = new Map<string, Tensor>();
      for (const { norm, matrices } of foldedInto(this.config)) {
        for (const key of matrices) folded.set(key, mul(this.adapted(key), this.view(norm)));
      }
      const matrix = (key: string): Tensor => folded.get(key) ?? this.adapted(key);
      const layers = Array.from({ length: this.config.layers }, (_, i): LayerWeights => {
        const [qNorm, kNorm] = ['qNorm', 'kNorm'].map((key) => this.#headNorm(`${i}.${key}`)) as [
          Float32Array,
          Float32Array,
        ];
        // Nothing bounds the scores of heads that are not normalised.
        bounds.push(hasHeadNorms(this.config) ? scoreBound(this.config.headDim, qNorm, kNorm) : Infinity);
        const [qkBias, vBias] = ['qkBias', 'vBias'].map((key) =>
          hasBiases(this.config) ? this.view(`${i}.${key}`) : undefined,
        );
        const [qk, v, o] = [matrix(`${i}.qk`), matrix(`${i}.v`), matrix(`${i}.o`)];
        const [gate, up, down] = [matrix(`${i}.gate`), matrix(`${i}.up`), matrix(`${i}.down`)];
        return { qk, v, qkBias, vBias, o, gate, up, down, headWeights: headWeights(this.config, qNorm, kNorm) };
      });
      return { embed: this.view('embed'), layers, head: matrix('head') };
    });
    keepAll(made);
    return { ...made, scoreBound: Math.max(...bounds) };
  }

  #headNorm(key: string): Float32Array {
    if (!hasHeadNorms(this.config)) return new Float32Array(this.config.headDim).fill(1);
    const view = this.view(key);
    const values = view.dataSync() as Float32Array;
    view.dispose();
    return values;
  }

  #dropWeights(): void {
    if (this.#weights !== undefined) tf.dispose(this.#weights as unknown as Parameters<typeof tf.dispose>[0]);
    this.#weights = undefined;
  }
}

/** Keeps the weights: they may be made inside a caller's `tf.tidy`, and must outlive it. */
function keepAll(made: Omit<DecoderWeights, 'scoreBound'>): void {
  const layers = made.layers.flatMap(({ headWeights: h, ...rest }) => [...Object.values(rest), h.straight, h.swapped]);
  for (const tensor of [made.embed, made.head, ...layers]) if (tensor !== undefined) tf.keep(tensor);
}
