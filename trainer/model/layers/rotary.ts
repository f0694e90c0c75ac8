/**
 * Norm and rotary embedding of queries and keys together: y = n·C + swap(n)·S, where `swap` exchanges the halves of a
 * head, and C and S carry cosine and sine, the norms' weights and, for queries, 1/sqrt(head size).
 */

import { ropeAngles } from '../../sampler/rope-table.ts';
import { tf } from '../../tensorflow.ts';
import type { ModelConfig } from '../config.ts';
import { type Tensor, add, matMul, mul, reshape, scope, slice, sumOver } from './kernels.ts';
import { type Normalized, normalize, normalizeGradient } from './rms-norm.ts';

const swapped = (i: number, headDim: number): number => (i + headDim / 2) % headDim;

/**
 * Angles for positions 0 to `capacity` − 1: cosine [capacity, width] and signed sine, width = (heads + kvHeads) ·
 * headDim.
 */
export class RotaryTables {
  readonly capacity: number;
  readonly swap: Tensor;
  readonly #cosine: Tensor;
  readonly #sine: Tensor;

  constructor(config: ModelConfig, capacity: number) {
    const { headDim } = config;
    const [half, heads] = [headDim / 2, config.heads + config.kvHeads];
    const width = heads * headDim;
    const angles = ropeAngles(capacity, config);
    const [cosine, sine] = [new Float32Array(capacity * width), new Float32Array(capacity * width)];
    for (let at = 0; at < cosine.length; at++) {
      const i = at % headDim;
      const from = Math.floor(at / width) * half + (i % half);
      cosine[at] = angles.cos[from] ?? 0;
      sine[at] = (i < half ? -1 : 1) * (angles.sin[from] ?? 0);
    }
    const exchange = new Float32Array(headDim * headDim);
    for (let i = 0; i < headDim; i++) exchange[swapped(i, headDim) * headDim + i] = 1;
    this.capacity = capacity;
    this.#cosine = tf.keep(tf.tensor2d(cosine, [capacity, width]));
    this.#sine = tf.keep(tf.tensor2d(sine, [capacity, width]));
    this.swap = tf.keep(tf.tensor2d(exchange, [headDim, headDim]));
  }

  /** [length, width] each. */
  first(length: number): { cosine: Tensor; sine: Tensor } {
    return { cosine: slice(this.#cosine, [0, 0], [length, -1]), sine: slice(this.#sine, [0, 0], [length, -1]) };
  }

  dispose(): void {
    tf.dispose([this.#cosine, this.#sine, this.swap]);
  }
}

/** The tables of one model, made anew if a longer batch needs more positions. */
export class GrowingRotaryTables {
  readonly #config: ModelConfig;
  #tables: RotaryTables | undefined;

  constructor(config: ModelConfig) {
    this.#config = config;
  }

  /** Tables for at least positions 0 to `length` − 1. */
  for(length: number): RotaryTables {
    if (this.#tables === undefined || this.#tables.capacity < length) {
      this.#tables?.dispose();
      this.#tables = new RotaryTables(this.#config, Math.max(1024, length));
    }
    return this.#tables;
  }

  dispose(): void {
    this.#tables?.dispose();
  }
}

/**
 * The norms' weights along the width: q's (times 1/sqrt(headDim)) per query head, then k's per key head. In families
 * without such norms, all weights are 1.
 */
export interface HeadWeights {
  /** [width]. */
  readonly straight: Tensor;
  /** The same with swapped halves of each head. */
  readonly swapped: Tensor;
}

export function headWeights(config: ModelConfig, qNorm: Float32Array, kNorm: Float32Array): HeadWeights {
  const { heads, kvHeads, headDim } = config;
  const weight = (at: number, i: number): number =>
    at < heads * headDim ? (qNorm[i] ?? 0) / Math.sqrt(headDim) : (kNorm[i] ?? 0);
  const width = (heads + kvHeads) * headDim;
  const straight = Float32Array.from({ length: width }, (_, at) => weight(at, at % headDim));
  const other = Float32Array.from({ length: width }, (_, at) => weight(at, swapped(at % headDim, headDim)));
  return { straight: tf.tensor1d(straight), swapped: tf.tensor1d(other) };
}

/** No |score| exceeds this: q and k are normalised, so |q·k|/sqrt(h) ≤ sqrt(h) · max|wq| · max|wk| (Cauchy–Schwarz). */
export function scoreBound(headDim: number, qNorm: Float32Array, kNorm: Float32Array): number {
  const largest = (w: Float32Array): number => w.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  return Math.sqrt(headDim) * largest(qNorm) * largest(kNorm);
}

/** Gradients of `HeadWeights` → gradients of the two norms. */
export function headWeightGradients(
  config: ModelConfig,
  straight: Float32Array,
  other: Float32Array,
): { qNorm: Float32Array; kNorm: Float32Array } {
  const { heads, headDim } = config;
  const [qNorm, kNorm] = [new Float32Array(headDim), new Float32Array(headDim)];
  for (let at = 0; at < straight.length; at++) {
    const query = at < heads * headDim;
    const [target, scale] = query ? [qNorm, 1 / Math.sqrt(headDim)] : [kNorm, 1];
    const [i, j] = [at % headDim, swapped(at % headDim, headDim)];
    target[i] = (target[i] ?? 0) + scale * (straight[at] ?? 0);
    target[j] = (target[j] ?? 0) + scale * (other[at] ?? 0);
  }
  return { qNorm, kNorm };
}

export interface RotarySaved {
  /** Of [batch · length · heads, headDim]; without `inverse` if heads are not normalised. */
  readonly normalized: Pick<Normalized, 'n'> & Partial<Normalized>;
  readonly exchanged: Tensor;
  readonly cosine: Tensor;
  readonly sine: Tensor;
}

/** The shape of a forward pass's rows, and the rotary tables for it. */
export interface RotaryContext {
  readonly batch: number;
  readonly length: number;
  readonly headDim: number;
  /** True if queries and keys of each head are normalised. */
  readonly headNorms: boolean;
  readonly epsilon: Tensor;
  readonly tables: { readonly cosine: Tensor; readonly sine: Tensor; readonly swap: Tensor };
}

/** `projected` [batch · length, width] → normed (if `headNorms`), weighted and rotated, [batch, length, width]. */
export function rotate(
  projected: Tensor,
  weights: HeadWeights,
  context: RotaryContext,
): { y: Tensor; saved: RotarySaved } {
  const { batch, length, headDim, tables } = context;
  return scope(() => {
    const parts = reshape(projected, [-1, headDim]);
    const normalized = context.headNorms ? normalize(parts, context.epsilon) : { n: parts };
    const exchanged = matMul(normalized.n, tables.swap);
    const cosine = mul(tables.cosine, weights.straight);
    const sine = mul(tables.sine, weights.swapped);
    const [straight, other] = [normalized.n, exchanged].map((x) => reshape(x, [batch, length, -1])) as [Tensor, Tensor];
    const y = add(mul(straight, cosine), mul(other, sine));
    return { y, saved: { normalized, exchanged, cosine, sine } };
  });
}

/** dy [batch, length, width] → gradients of `projected` (same shape as it) and of the head weights ([width] each). */
export function rotateGradient(
  dy: Tensor,
  saved: RotarySaved,
  context: RotaryContext,
): { dProjected: Tensor; straight: Tensor; swapped: Tensor } {
  const { batch, length, headDim, tables } = context;
  return scope(() => {
    const wide = (x: Tensor): Tensor => reshape(x, [batch, length, -1]);
    const heads = (x: Tensor): Tensor => reshape(x, [-1, headDim]);
    const straight = sumOver(mul(sumOver(mul(dy, wide(saved.normalized.n)), [0]), tables.cosine), [0]);
    const other = sumOver(mul(sumOver(mul(dy, wide(saved.exchanged)), [0]), tables.sine), [0]);
    const back = matMul(heads(mul(dy, saved.sine)), tables.swap);
    const dn = add(heads(mul(dy, saved.cosine)), back);
    const width = tables.cosine.shape[1] ?? 0;
    const { n, inverse } = saved.normalized;
    const dParts = inverse === undefined ? dn : normalizeGradient(dn, { n, inverse });
    const dProjected = reshape(dParts, [batch * length, width]);
    return { dProjected, straight, swapped: other };
  });
}
