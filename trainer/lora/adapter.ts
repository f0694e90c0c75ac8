/** An adapter on the device: one flat vector of all A and B. Training changes this vector, never the base. */

import { type Tensor, add, matMul, reshape, scale, scope, slice } from '../model/layers/kernels.ts';
import {
  type Layout,
  type Segment,
  type Trainable,
  packFlat,
  refuseUnknown,
  unpackFlat,
  WrongWeights,
} from '../model/parameters.ts';
import type { NamedTensor } from '../model/safetensors.ts';
import type { Weights } from '../model/weights.ts';
import { tf } from '../tensorflow.ts';
import { type AdapterJson, type AdapterModule, adapterModules, moduleOf, savedParts } from './adapter-config.ts';
import { type AdapterWeights, adapterLayout, segmentKey } from './adapter-layout.ts';

export class Adapter implements Trainable {
  readonly json: AdapterJson;
  readonly modules: ReadonlyMap<string, AdapterModule>;
  readonly layout: Layout;
  readonly #saved: ReadonlySet<string>;
  readonly #changed: () => void;
  #flat: Tensor;

  /** `changed` is called after each replacement. Errors: `UnsupportedAdapter`, `WrongWeights`. */
  constructor(base: Layout, { json, tensors }: AdapterWeights, changed: () => void) {
    const modules = adapterModules(json, base);
    this.json = json;
    this.modules = new Map(modules.map((module) => [module.module, module]));
    const saved = savedParts(json, base);
    this.#saved = new Set(saved.map(({ name }) => moduleOf(name)));
    this.layout = adapterLayout(modules, saved);
    this.#changed = changed;
    refuseUnknown(this.layout, tensors, false);
    this.#flat = tf.keep(tf.tensor1d(packFlat(this.layout, tensors)));
  }

  get flat(): Tensor {
    return this.#flat;
  }

  replace(next: Tensor): void {
    this.#flat.dispose();
    this.#flat = tf.keep(next);
    this.#changed();
  }

  /** True if the adapter changes or replaces the base's module. */
  changes(module: string): boolean {
    return this.modules.has(module) || this.#saved.has(module);
  }

  /** True if the adapter stores the module whole, instead of the base's. */
  isSaved(module: string): boolean {
    return this.#saved.has(module);
  }

  /** A module that is stored whole, in the policy's shape: a matrix of one row is a vector. */
  saved(module: string): Tensor {
    const { rows, columns } = this.#segment(module);
    return scope(() => reshape(this.#view(module), rows === 1 ? [columns] : [rows, columns]));
  }

  /** A [rank, in] or B [out, rank], without a copy. */
  view(module: string, side: 'A' | 'B'): Tensor {
    return this.#view(segmentKey(module, side));
  }

  /** scaling · B · A, [out, in] (LoRA: Hu et al. 2021, eq. 3); `undefined` if the module has no adapter. */
  delta(module: string): Tensor | undefined {
    const known = this.modules.get(module);
    if (known === undefined) return undefined;
    return scope(() => scale(matMul(this.view(module, 'B'), this.view(module, 'A')), known.scaling));
  }

  /** The base's tensor of a module plus its adapter, with the same bits as in training. Errors: `WrongWeights`. */
  added(module: string, { shape, data }: NamedTensor): Float32Array {
    const [known, delta] = [this.modules.get(module), this.delta(module)];
    if (known === undefined || delta === undefined) return data;
    const { rows, columns } = known;
    try {
      if (shape.join() !== [rows, columns].join())
        throw new WrongWeights(module, `has shape [${shape.join()}], the configuration says [${rows},${columns}]`);
      const base = tf.tensor2d(data, [rows, columns]);
      const sum = add(base, delta);
      const values = sum.dataSync() as Float32Array;
      tf.dispose([base, sum]);
      return values;
    } finally {
      delta.dispose();
    }
  }

  /** The gradients of A and B from the module's gradient dW [out, in]. */
  project(module: string, dW: Tensor): { readonly A: Tensor; readonly B: Tensor } {
    const scaling = this.modules.get(module)?.scaling ?? 0;
    return scope(() => ({
      A: scale(matMul(this.view(module, 'B'), dW, true), scaling),
      B: scale(matMul(dW, this.view(module, 'A'), false, true), scaling),
    }));
  }

  /** The tensors of `adapter_model.safetensors`, copied from the device. */
  download(): Weights {
    return unpackFlat(this.layout, this.#flat.dataSync() as Float32Array);
  }

  dispose(): void {
    this.#flat.dispose();
  }

  #segment(key: string): Segment {
    const segment = this.layout.segments.find((one) => one.key === key);
    if (segment === undefined) throw new Error(`the adapter has no ${key}`);
    return segment;
  }

  #view(key: string): Tensor {
    const { offset, size, rows, columns } = this.#segment(key);
    return scope(() => reshape(slice(this.#flat, [offset], [size]), [rows, columns]));
  }
}
