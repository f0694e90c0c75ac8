/**
 * AdamW on the flat vector of a policy, as PyTorch computes it: decoupled decay, bias correction, global-norm clipping.
 */

import type { AdamWSettings } from '../protocol/algorithm.ts';
import { type Tensor, add, div, inGraph, reshape, scale, sqrt, square, sub, sumLast } from './model/layers/kernels.ts';
import { type Layout, type Trainable, packFlat, unpackFlat } from './model/parameters.ts';
import type { NamedTensor } from './model/safetensors.ts';
import { tf } from './tensorflow.ts';

export type { AdamWSettings };

/** The gradient's norm is infinite or NaN. The weights are those before the step. */
export class TrainingDiverged extends Error {
  override readonly name = 'TrainingDiverged';
  readonly gradNorm: number;
  constructor(gradNorm: number) {
    super(`the gradient's norm is ${gradNorm}: lower the learning rate, or check the data's log-probabilities`);
    this.gradNorm = gradNorm;
  }
}

/** The weights after the step are not finite, or so large that their norm is not. All is as it was before the step. */
export class WeightsDiverged extends Error {
  override readonly name = 'WeightsDiverged';
}

const firstPrefix = 'exp_avg.';
const secondPrefix = 'exp_avg_sq.';

/**
 * ‖flat‖₂: sums of rows of 16 on the device, then their sum in float64 in a fixed order, so that threads do not change
 * it.
 */
export function normOf(flat: Tensor): number {
  const rows = inGraph(() => sumLast(square(reshape(flat, [-1, 16]))));
  const sums = rows.dataSync() as Float32Array;
  rows.dispose();
  return Math.sqrt(sums.reduce((total, x) => total + x, 0));
}

export class AdamW {
  #first: Tensor;
  #second: Tensor;
  #steps: number;

  private constructor(first: Tensor, second: Tensor, steps: number) {
    this.#first = tf.keep(first);
    this.#second = tf.keep(second);
    this.#steps = steps;
  }

  static fresh(layout: Layout): AdamW {
    return new AdamW(tf.zeros([layout.size]), tf.zeros([layout.size]), 0);
  }

  /** Loads what `save` returned. Errors: `WrongWeights`. */
  static load(layout: Layout, tensors: ReadonlyMap<string, NamedTensor>, steps: number): AdamW {
    const first = tf.tensor1d(packFlat(layout, tensors, firstPrefix));
    try {
      return new AdamW(first, tf.tensor1d(packFlat(layout, tensors, secondPrefix)), steps);
    } catch (error) {
      first.dispose();
      throw error;
    }
  }

  get steps(): number {
    return this.#steps;
  }

  /** Both moments, named by PyTorch's prefix and Hugging Face's name. */
  save(layout: Layout): Map<string, NamedTensor> {
    const first = unpackFlat(layout, this.#first.dataSync() as Float32Array, firstPrefix);
    const second = unpackFlat(layout, this.#second.dataSync() as Float32Array, secondPrefix);
    return new Map([...first, ...second]);
  }

  /**
   * One step along `gradient` [layout.size], which is disposed (Loshchilov and Hutter 2019, algorithm 2; Kingma and
   * Ba 2015, algorithm 1). Returns the gradient's norm before clipping. Errors: `TrainingDiverged`; if `isChecked`,
   * `WeightsDiverged`, which leaves the gradient.
   */
  apply(target: Trainable, gradient: Tensor, settings: AdamWSettings, { isChecked = false } = {}): number {
    const norm = normOf(gradient);
    if (!Number.isFinite(norm)) {
      gradient.dispose();
      throw new TrainingDiverged(norm);
    }
    // PyTorch's clip_grad_norm_.
    const clip = Math.min(1, (settings.maxGradNorm ?? Infinity) / (norm + 1e-6));
    const next = inGraph(() => this.#next(target.flat, clip < 1 ? scale(gradient, clip) : gradient, settings));
    if (isChecked && !Number.isFinite(normOf(next.weights))) {
      tf.dispose([next.first, next.second, next.weights]);
      throw new WeightsDiverged('the weights after the step would not be finite');
    }
    tf.dispose([gradient, this.#first, this.#second]);
    this.#first = tf.keep(next.first);
    this.#second = tf.keep(next.second);
    this.#steps += 1;
    target.replace(next.weights);
    return norm;
  }

  dispose(): void {
    tf.dispose([this.#first, this.#second]);
  }

  #next(weights: Tensor, gradient: Tensor, settings: AdamWSettings) {
    const { learningRate, epsilon, weightDecay, betas } = settings;
    const [beta1, beta2] = betas;
    const step = this.#steps + 1;
    const first = add(scale(this.#first, beta1), scale(gradient, 1 - beta1));
    const second = add(scale(this.#second, beta2), scale(square(gradient), 1 - beta2));
    const root = scale(sqrt(second), 1 / Math.sqrt(1 - beta2 ** step));
    const direction = div(first, add(root, tf.scalar(epsilon)));
    const decayed = scale(weights, 1 - learningRate * weightDecay);
    return { first, second, weights: sub(decayed, scale(direction, learningRate / (1 - beta1 ** step))) };
  }
}
