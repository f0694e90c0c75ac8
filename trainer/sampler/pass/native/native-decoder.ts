/**
 * The decoder on processors: compiled code (`trainer/native`) over packed weights. The order of the operations that
 * compute an element depends on its own row alone, so no shape has to be padded or avoided.
 */

import { availableParallelism } from 'node:os';
import { NATIVE_LAYOUT } from '../../cache/cache-budget.ts';
import type { ModelConfig } from '../../../model/config.ts';
import type { Decoder, DecoderAdapter, DecoderKind, PassResult, PassRow } from '../decoder.ts';
import { NativeAdapter } from './native-adapter.ts';
import { type Handle, type NativeBinding, loadNativeBinding } from './native-binding.ts';
import { NativeModel, shapeOf } from './native-model.ts';
import { flattenRows } from './native-plan.ts';

const { blockSize } = NATIVE_LAYOUT;

/** As many threads as TensorFlow takes for one op: the engine's share of the machine. */
const threads = (): number => Number(process.env['TF_NUM_INTRAOP_THREADS']) || availableParallelism();

export class NativeDecoder implements Decoder<NativeModel> {
  readonly #binding: NativeBinding;
  readonly #handle: Handle;
  readonly #limits: {
    readonly vocabulary: number;
    readonly positions: number;
    readonly blocks: number;
    readonly blockSize: number;
  };

  constructor(binding: NativeBinding, config: ModelConfig, positions: number, blocks: number) {
    this.#binding = binding;
    this.#limits = { vocabulary: config.vocabSize, positions, blocks, blockSize };
    this.#handle = binding.createDecoder(shapeOf(config, positions), config.normEpsilon, blocks, threads());
  }

  forward(model: NativeModel, rows: readonly PassRow[]): PassResult[] {
    const plan = flattenRows(rows, this.#limits);
    this.#binding.forward(
      this.#handle,
      model.handle,
      plan.ids,
      plan.starts,
      plan.begins,
      plan.tables,
      plan.tableStarts,
      plan.adapters.map(handleOf),
      plan.adapterOf,
      plan.endTokens,
      plan.temperatures,
      plan.uniforms,
      plan.limit,
      plan.chosen,
      plan.logprobs,
      plan.logits,
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

function handleOf(adapter: DecoderAdapter): Handle {
  if (adapter instanceof NativeAdapter) return adapter.handle;
  throw new TypeError('the adapter belongs to another kind of decoder');
}

/** Errors: `NoNativeDecoder`. */
export function nativeDecoderKind(): DecoderKind<NativeModel> {
  const binding = loadNativeBinding();
  return {
    ...NATIVE_LAYOUT,
    model: (config, weights, positions) => NativeModel.load(binding, config, weights, positions),
    adapter: (config, positions, adapter) => new NativeAdapter(binding, config, positions, adapter),
    decoder: (config, positions, blocks) => new NativeDecoder(binding, config, positions, blocks),
  };
}
