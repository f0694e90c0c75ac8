/** The positions of an adapter's matrices in its flat vector, and their names in PEFT. */

import { type Layout, layOut, type Part, type SegmentSpec } from '../model/parameters.ts';
import type { NamedTensor } from '../model/safetensors.ts';
import { type AdapterJson, type AdapterModule, moduleOf } from './adapter-config.ts';

export interface AdapterWeights {
  readonly json: AdapterJson;
  /**
   * By PEFT's names: `base_model.model.MODULE.lora_A.weight` [rank, in], `…lora_B.weight` [out, rank]; for tensors that
   * are stored whole, the base's name after `base_model.model.`.
   */
  readonly tensors: ReadonlyMap<string, NamedTensor>;
}

/** PEFT's name of a tensor of the base. */
export const adapterName = (tensor: string): string => `base_model.model.${tensor}`;

const fileName = (module: string, side: 'A' | 'B'): string => adapterName(`${module}.lora_${side}.weight`);
export const segmentKey = (module: string, side: 'A' | 'B'): string => `${module}.${side}`;

/** A and B of each module, then the tensors that are stored whole. */
export function adapterLayout(
  modules: readonly AdapterModule[],
  saved: ReadonlyArray<Pick<Part, 'name' | 'shape'>> = [],
): Layout {
  const pairs = modules.flatMap(({ module, rank, rows, columns }): SegmentSpec[] => [
    [segmentKey(module, 'A'), [[fileName(module, 'A'), [rank, columns]]]],
    [segmentKey(module, 'B'), [[fileName(module, 'B'), [rows, rank]]]],
  ]);
  return layOut([
    ...pairs,
    ...saved.map(({ name, shape }): SegmentSpec => [moduleOf(name), [[adapterName(name), shape]]]),
  ]);
}
