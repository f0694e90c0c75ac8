/**
 * Causal attention over right-padded rows, in chunks of queries that see only the keys up to their own end. The softmax
 * itself is never stored: a column of ones beside the values gives its denominator, and a column beside the gradient
 * subtracts the mean (the identities of FlashAttention, Dao et al. 2022, appendix B).
 */

import { tf } from '../../tensorflow.ts';
import type { ModelConfig } from '../config.ts';
import {
  type Tensor,
  add,
  addAll,
  batchMatMul,
  concat,
  div,
  exp,
  maxLast,
  mul,
  neg,
  padAfter,
  reshape,
  scope,
  slice,
  sub,
  sumLast,
  transpose,
} from './kernels.ts';

/** The fewest queries per chunk. Smaller chunks compute fewer masked scores; larger ones give faster products. */
const shortestChunk = 128;
/** The most chunks. With so many, masked scores cost little already, and each chunk makes the graph larger. */
const mostChunks = 16;
/** exp of scores up to this, summed over any context, stays far inside the range of float32. */
const safeScore = 60;

/** Shared by all layers of one forward pass. */
export interface AttentionShape {
  readonly batch: number;
  readonly length: number;
  readonly config: ModelConfig;
  /** True if scores may be large: the masks are added, and each row's maximum is subtracted. */
  readonly guarded: boolean;
  /** Queries per chunk. */
  readonly chunk: number;
  /** One per chunk: [group · chunk, keys]. */
  readonly masks: readonly Tensor[];
  /** [kvHeads · batch, length, 1]: the column of ones. */
  readonly ones: Tensor;
}

interface Chunk {
  readonly begin: number;
  readonly length: number;
  /** [kvHeads · batch, group · length, headDim]. */
  readonly q: Tensor;
  /** [kvHeads · batch, begin + length, headDim], and the values with their column of ones. */
  readonly k: Tensor;
  readonly v1: Tensor;
  /** Numerators of the softmax: [kvHeads · batch, group · length, begin + length]. */
  readonly weights: Tensor;
}

export interface AttentionSaved {
  readonly chunks: readonly Chunk[];
  /** [kvHeads, batch, group, length, headDim]. */
  readonly out: Tensor;
  /** Denominators: the same with a last size of 1. */
  readonly sums: Tensor;
}

/** [group · length, begin + length]: 1 (if `additive`: 0) where a query sees a position, 0 (or −1e9) elsewhere. */
function causalMask(begin: number, length: number, group: number, additive: boolean): Tensor {
  const width = begin + length;
  const mask = new Float32Array(length * width);
  for (let row = 0; row < length; row++) {
    const visible = begin + row + 1;
    if (additive) mask.fill(-1e9, row * width + visible, (row + 1) * width);
    else mask.fill(1, row * width, row * width + visible);
  }
  return tf.tile(tf.tensor2d(mask, [length, width]), [group, 1]);
}

const chunkOf = (length: number): number => Math.max(shortestChunk, Math.ceil(length / mostChunks / 16) * 16);

/** `bound`: upper bound of |score|, from `scoreBound`. */
export function attentionShape(config: ModelConfig, batch: number, length: number, bound: number): AttentionShape {
  const guarded = !(bound <= safeScore);
  const group = config.heads / config.kvHeads;
  const chunk = chunkOf(length);
  const begins = Array.from({ length: Math.ceil(length / chunk) }, (_, i) => i * chunk);
  return scope(() => {
    const masks = begins.map((begin) => causalMask(begin, Math.min(chunk, length - begin), group, guarded));
    return { batch, length, config, guarded, chunk, masks, ones: tf.ones([config.kvHeads * batch, length, 1]) };
  });
}

function numerators(scores: Tensor, mask: Tensor, additive: boolean): Tensor {
  if (!additive) return mul(exp(scores), mask);
  const masked = add(scores, mask);
  return exp(sub(masked, maxLast(masked)));
}

/**
 * `y` [batch, length, (heads + kvHeads) · headDim] → queries [kv, batch, group, length, hd] and keys
 * [kv · batch, length, hd].
 */
function splitHeads(y: Tensor, shape: AttentionShape): { q: Tensor; k: Tensor } {
  const { batch, length, config } = shape;
  const { heads, kvHeads, headDim } = config;
  const parts = reshape(y, [batch, length, heads + kvHeads, headDim]);
  const q = reshape(slice(parts, [0, 0, 0, 0], [-1, -1, heads, -1]), [
    batch,
    length,
    kvHeads,
    heads / kvHeads,
    headDim,
  ]);
  const k = transpose(slice(parts, [0, 0, heads, 0], [-1, -1, -1, -1]), [2, 0, 1, 3]);
  return { q: transpose(q, [2, 0, 3, 1, 4]), k: reshape(k, [kvHeads * batch, length, headDim]) };
}

function attendChunk(
  q: Tensor,
  k: Tensor,
  v1: Tensor,
  mask: Tensor,
  index: number,
  shape: AttentionShape,
): { chunk: Chunk; out: Tensor } {
  const { batch, config, guarded } = shape;
  const { heads, kvHeads, headDim } = config;
  const group = heads / kvHeads;
  const begin = index * shape.chunk;
  const length = Math.min(shape.chunk, shape.length - begin);
  return scope(() => {
    const own = reshape(slice(q, [0, 0, 0, begin, 0], [-1, -1, -1, length, -1]), [
      kvHeads * batch,
      group * length,
      headDim,
    ]);
    const keys = slice(k, [0, 0, 0], [-1, begin + length, -1]);
    const values = slice(v1, [0, 0, 0], [-1, begin + length, -1]);
    const weights = numerators(batchMatMul(own, keys, false, true), mask, guarded);
    const out = reshape(batchMatMul(weights, values), [kvHeads, batch, group, length, headDim + 1]);
    return { chunk: { begin, length, q: own, k: keys, v1: values, weights }, out };
  });
}

/**
 * `y`: queries and keys from `rotate`, [batch, length, (heads + kvHeads) · headDim]; `v` [batch · length, kvHeads ·
 * headDim]. Returns [batch · length, heads · headDim].
 */
export function attend(y: Tensor, v: Tensor, shape: AttentionShape): { out: Tensor; saved: AttentionSaved } {
  const { batch, length, config } = shape;
  const { heads, kvHeads, headDim } = config;
  return scope(() => {
    const { q, k } = splitHeads(y, shape);
    const values = reshape(transpose(reshape(v, [batch, length, kvHeads, headDim]), [2, 0, 1, 3]), [
      -1,
      length,
      headDim,
    ]);
    const v1 = concat([values, shape.ones], 2);
    const parts = shape.masks.map((mask, i) => attendChunk(q, k, v1, mask, i, shape));
    const all = concat(
      parts.map((part) => part.out),
      3,
    );
    const sums = slice(all, [0, 0, 0, 0, headDim], [-1, -1, -1, -1, 1]);
    const out = div(slice(all, [0, 0, 0, 0, 0], [-1, -1, -1, -1, headDim]), sums);
    const rows = reshape(transpose(out, [1, 3, 0, 2, 4]), [batch * length, heads * headDim]);
    return { out: rows, saved: { chunks: parts.map((part) => part.chunk), out, sums } };
  });
}

interface ChunkGradient {
  readonly dq: Tensor;
  readonly dk: Tensor;
  readonly dv1: Tensor;
}

/** `given`: [gradient of out, −(gradient · out)] over the denominators, of this chunk's queries. */
function chunkGradient(given: Tensor, chunk: Chunk, total: number): ChunkGradient {
  return scope(() => {
    const dScores = mul(chunk.weights, batchMatMul(given, chunk.v1, false, true));
    const after = [0, total - chunk.begin - chunk.length, 0];
    const pad = (x: Tensor): Tensor => (after[1] === 0 ? x : padAfter(x, after));
    return {
      dq: batchMatMul(dScores, chunk.k),
      dk: pad(batchMatMul(dScores, chunk.q, true)),
      dv1: pad(batchMatMul(chunk.weights, given, true)),
    };
  });
}

/** Gradient of `attend`, for dOut [batch · length, heads · headDim]: dy and dv, shaped as y and v. */
export function attendGradient(dOut: Tensor, saved: AttentionSaved, shape: AttentionShape): { dy: Tensor; dv: Tensor } {
  const { batch, length, config } = shape;
  const { heads, kvHeads, headDim } = config;
  const group = heads / kvHeads;
  return scope(() => {
    const d = transpose(reshape(dOut, [batch, length, kvHeads, group, headDim]), [2, 0, 3, 1, 4]);
    const given = div(concat([d, neg(sumLast(mul(d, saved.out)))], 4), saved.sums);
    const gradients = saved.chunks.map((chunk) => {
      const own = slice(given, [0, 0, 0, chunk.begin, 0], [-1, -1, -1, chunk.length, -1]);
      return chunkGradient(reshape(own, [kvHeads * batch, group * chunk.length, headDim + 1]), chunk, length);
    });
    const dq = concat(
      gradients.map((g, i) => reshape(g.dq, [kvHeads, batch, group, saved.chunks[i]?.length ?? 0, headDim])),
      3,
    );
    const dk = reshape(addAll(gradients.map((g) => g.dk)), [kvHeads, batch, length, headDim]);
    const dv1 = reshape(addAll(gradients.map((g) => g.dv1)), [kvHeads, batch, length, headDim + 1]);
    const dqRows = reshape(transpose(dq, [1, 3, 0, 2, 4]), [batch, length, heads, headDim]);
    const dy = reshape(concat([dqRows, transpose(dk, [1, 2, 0, 3])], 2), [batch, length, (heads + kvHeads) * headDim]);
    const dv = transpose(slice(dv1, [0, 0, 0, 0], [-1, -1, -1, headDim]), [1, 2, 0, 3]);
    return { dy, dv: reshape(dv, [batch * length, kvHeads * headDim]) };
  });
}
