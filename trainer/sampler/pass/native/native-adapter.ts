/** An adapter's matrices, packed for the compiled decoder. Its names, shapes and settings are checked first. */

import { adapterModules } from '../../../lora/adapter-config.ts';
import { type AdapterWeights, adapterLayout } from '../../../lora/adapter-layout.ts';
import type { ModelConfig } from '../../../model/config.ts';
import { layoutOf, packFlat, refuseUnknown } from '../../../model/parameters.ts';
import type { DecoderAdapter } from '../decoder.ts';
import type { Handle, NativeBinding } from './native-binding.ts';
import { shapeOf } from './native-model.ts';

/** In the order of `Module` in `adapter.h`. */
const modulesOfLayer = [
  'self_attn.q_proj',
  'self_attn.k_proj',
  'self_attn.v_proj',
  'self_attn.o_proj',
  'mlp.gate_proj',
  'mlp.up_proj',
  'mlp.down_proj',
];

/** The number of a module by PEFT's name: of the layers' modules, then of the head. */
function numberOf(module: string, layers: number): number {
  if (module === 'lm_head') return layers * modulesOfLayer.length;
  const [, layer, name = ''] = /^model\.layers\.(\d+)\.(.+)$/.exec(module) ?? [];
  const at = modulesOfLayer.indexOf(name);
  if (layer === undefined || at < 0) throw new TypeError(`the decoder has no module ${module}`);
  return Number(layer) * modulesOfLayer.length + at;
}

/** Floats of a packed matrix's row: a whole number of panels. */
const padded = (columns: number): number => Math.ceil(columns / 16) * 16;

export class NativeAdapter implements DecoderAdapter {
  readonly bytes: number;
  readonly handle: Handle;
  readonly #binding: NativeBinding;

  /** Errors: `UnsupportedAdapter`, `WrongWeights`. */
  constructor(binding: NativeBinding, config: ModelConfig, positions: number, { json, tensors }: AdapterWeights) {
    const modules = adapterModules(json, layoutOf(config));
    const layout = adapterLayout(modules);
    refuseUnknown(layout, tensors, false);
    const flat = packFlat(layout, tensors);
    const ranks = new Int32Array(config.layers * modulesOfLayer.length + 1);
    for (const { module, rank } of modules) ranks[numberOf(module, config.layers)] = rank;
    this.#binding = binding;
    this.handle = binding.createAdapter(shapeOf(config, positions), config.normEpsilon, ranks);
    for (const [i, { module, scaling }] of modules.entries()) {
      const number = numberOf(module, config.layers);
      for (const side of [0, 1] as const) {
        const { offset = 0, size = 0 } = layout.segments[2 * i + side] ?? {};
        binding.fillAdapter(this.handle, number, side, scaling, flat.subarray(offset, offset + size));
      }
    }
    this.bytes = modules.reduce(
      (sum, { rank, rows, columns }) => sum + 4 * (columns * padded(rank) + rank * padded(rows)),
      0,
    );
  }

  dispose(): void {
    this.#binding.dispose(this.handle);
  }
}
