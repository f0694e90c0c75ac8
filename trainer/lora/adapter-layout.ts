/** Where an adapter's matrices live in its flat vector, and what PEFT calls them. */

import { type Layout, layOut } from '../model/parameters.ts';
import type { NamedTensor } from '../model/safetensors.ts';
import type { AdapterJson, AdapterModule } from './adapter-config.ts';

export interface AdapterWeights {
  readonly json: AdapterJson;
  /** Under PEFT's names: `base_model.model.MODULE.lora_A.weight` [rank, in], `…lora_B.weight` [out, rank]. */
  readonly tensors: ReadonlyMap<string, NamedTensor>;
}

const fileName = (module: string, side: 'A' | 'B'): string => `base_model.model.${module}.lora_${side}.weight`;
export const segmentKey = (module: string, side: 'A' | 'B'): string => `${module}.${side}`;

/** The module that a tensor of the base policy belongs to. */
export const moduleOf = (tensor: string): string => tensor.replace(/\.weight$/, '');

export function adapterLayout(modules: readonly AdapterModule[]): Layout {
  return layOut(
    modules.flatMap(({ module, rank, rows, columns }) => [
      [segmentKey(module, 'A'), [[fileName(module, 'A'), [rank, columns]]]],
      [segmentKey(module, 'B'), [[fileName(module, 'B'), [rows, rank]]]],
    ]),
  );
}
