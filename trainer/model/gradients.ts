/** Gradients of one optimizer step, summed over its micro-batches in the order in which they are added. */

import { tf } from '../tensorflow.ts';
import { type Tensor, add, concat, inGraph, matMul, mul, reshape, scope, sumOver } from './layers/kernels.ts';
import { hasHeadNorms } from './config.ts';
import type { Layout } from './parameters.ts';
import { type Policy, foldedInto } from './policy.ts';
import { headWeightGradients } from './layers/rotary.ts';

/** A sum of gradients and its key. */
export type Sum = readonly [key: string, total: Tensor];

/** Receives the gradients of a backward pass, one matrix after the other. */
export interface GradientSink {
  /** True if the gradient under this key is used. */
  wants(key: string): boolean;
  /** The sum so far plus `gradient`, for `keep`. It consists of ops alone, which may be part of a graph. */
  plus(key: string, gradient: Tensor): readonly Sum[];
  /** The same for the gradient dyᵀ · x of a product with the key's matrix. Left out: that gradient is computed. */
  plusProduct?(key: string, dy: Tensor, x: Tensor): readonly Sum[];
  /** Stores sums, and owns them from then on. They outlive any surrounding `tf.tidy`. */
  keep(sums: readonly Sum[]): void;
  /** The gradient of the trainable flat vector; padding gets zeros. Clears the sums. */
  flatten(policy: Policy): Tensor;
  clear(): void;
}

/**
 * Sums by segment key; a matrix's gradient is that of the matrix with its norm folded in. There are three more keys:
 * `I.headWeights` and `I.headWeightsSwapped` of layer I, and `head`, for which a tied policy has no segment.
 */
export class Gradients implements GradientSink {
  readonly #sums = new Map<string, Tensor>();

  wants(): boolean {
    return true;
  }

  plus(key: string, gradient: Tensor): Sum[] {
    return [plus(this.#sums, key, gradient)];
  }

  keep(sums: readonly Sum[]): void {
    keepSums(this.#sums, sums);
  }

  flatten(policy: Policy): Tensor {
    const flat = scope(() => {
      const sums = new Map(this.#sums);
      if (hasHeadNorms(policy.config)) {
        for (let i = 0; i < policy.config.layers; i++) unfoldHeadNorms(policy, sums, i);
      }
      return inGraph(() => unfolded(policy, sums));
    });
    this.clear();
    return flat;
  }

  clear(): void {
    for (const sum of this.#sums.values()) sum.dispose();
    this.#sums.clear();
  }
}

export function plus(sums: ReadonlyMap<string, Tensor>, key: string, gradient: Tensor): Sum {
  const before = sums.get(key);
  return [key, before === undefined ? gradient : add(before, gradient)];
}

export function keepSums(sums: Map<string, Tensor>, totals: readonly Sum[]): void {
  for (const [key, total] of totals) {
    sums.get(key)?.dispose();
    sums.set(key, tf.keep(total));
  }
}

/** The sums that a sink makes of the gradient dyᵀ · x. */
export const productSums = (into: GradientSink, key: string, dy: Tensor, x: Tensor): readonly Sum[] =>
  into.plusProduct?.(key, dy, x) ?? into.plus(key, matMul(dy, x, true));

function required(gradients: ReadonlyMap<string, Tensor>, key: string): Tensor {
  const gradient = gradients.get(key);
  if (gradient === undefined) throw new Error(`no gradient was computed for ${key}`);
  return gradient;
}

/** The flat gradient: the norms' gradients are separated from those of the matrices that they are folded into. */
function unfolded(policy: Policy, sums: Map<string, Tensor>): Tensor {
  for (const { norm, matrices } of foldedInto(policy.config)) unfold(policy, sums, norm, matrices);
  const [head, embed] = [sums.get('head'), sums.get('embed')];
  if (policy.config.tiedEmbeddings && head !== undefined && embed !== undefined) sums.set('embed', add(embed, head));
  return concatenate(policy.layout, sums);
}

/** For M = W · diag(w): dW = dM · diag(w), dw = Σ over rows of dM ∘ W. */
function unfold(policy: Policy, gradients: Map<string, Tensor>, norm: string, matrices: readonly string[]): void {
  const weight = policy.view(norm);
  const parts = matrices.map((key) => {
    const folded = required(gradients, key);
    gradients.set(key, mul(folded, weight));
    return sumOver(mul(folded, policy.view(key)), [0]);
  });
  gradients.set(
    norm,
    parts.reduce((sum, part) => add(sum, part)),
  );
}

function unfoldHeadNorms(policy: Policy, gradients: Map<string, Tensor>, layer: number): void {
  const straight = required(gradients, `${layer}.headWeights`).dataSync() as Float32Array;
  const swapped = required(gradients, `${layer}.headWeightsSwapped`).dataSync() as Float32Array;
  const { qNorm, kNorm } = headWeightGradients(policy.config, straight, swapped);
  gradients.set(`${layer}.qNorm`, tf.tensor1d(qNorm));
  gradients.set(`${layer}.kNorm`, tf.tensor1d(kNorm));
}

/** The gradients of all segments in their places. */
export function concatenate({ segments, size }: Layout, gradients: ReadonlyMap<string, Tensor>): Tensor {
  const parts: Tensor[] = [];
  for (const [i, segment] of segments.entries()) {
    parts.push(reshape(required(gradients, segment.key), [-1]));
    const gap = (segments[i + 1]?.offset ?? size) - segment.offset - segment.size;
    if (gap > 0) parts.push(tf.zeros([gap]));
  }
  return concat(parts, 0);
}
