/** The compiled decoder (`binding.cc`), which the set-up installs beside TensorFlow's binding. */

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { findEngine } from '#setup/engine/engine-package.mjs';

/** An object of the binding: a model's packed weights, or a decoder with its cache. */
export type Handle = object & { readonly brand: 'native' };

export interface NativeBinding {
  /** `shape`: vocabulary, hidden, inner, layers, heads, kvHeads, headDim, positions, headNorms, biases, tied. */
  createModel(shape: Int32Array, epsilon: number, cosines: Float32Array, sines: Float32Array): Handle;
  /** Writes values of the tensor with this number in `model.h`, from index `from` on: whole rows of a matrix. */
  fillModel(model: Handle, tensor: number, from: number, values: Float32Array): void;
  /** `ranks`: of each layer's modules in the order of `Module` in `adapter.h`, then of the head; 0: not adapted. */
  createAdapter(shape: Int32Array, epsilon: number, ranks: Int32Array): Handle;
  /**
   * Writes A (`side` 0, `[rank, inputs]`) or B (1, `[outputs, rank]`, which is multiplied by `scaling`) of a module.
   */
  fillAdapter(adapter: Handle, module: number, side: 0 | 1, scaling: number, values: Float32Array): void;
  createDecoder(shape: Int32Array, epsilon: number, blocks: number, threads: number): Handle;
  dispose(held: Handle): void;
  copyBlock(decoder: Handle, from: number, to: number): void;
  forward(
    decoder: Handle,
    model: Handle,
    ids: Int32Array,
    starts: Int32Array,
    begins: Int32Array,
    tables: Int32Array,
    tableStarts: Int32Array,
    adapters: readonly Handle[],
    adapterOf: Int32Array,
    endTokens: Int32Array,
    temperatures: Float64Array,
    uniforms: Float64Array,
    limit: number,
    chosen: Int32Array,
    logprobs: Float64Array,
    logits: Float32Array,
  ): void;
}

/** The compiled decoder cannot be used here; the message holds the reason. */
export class NoNativeDecoder extends Error {
  override readonly name = 'NoNativeDecoder';
}

/** Errors: `NoNativeDecoder` if it was not built, or was built for another processor. */
export function loadNativeBinding(): NativeBinding {
  try {
    return createRequire(import.meta.url)(
      join(findEngine() ?? '', 'lib', 'napi-v8', 'longhaul_decoder.node'),
    ) as NativeBinding;
  } catch (error) {
    throw new NoNativeDecoder(`the compiled decoder cannot be loaded (${String(error)}). Run: npx longhaul setup`, {
      cause: error,
    });
  }
}
