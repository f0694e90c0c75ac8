/**
 * A new adapter: A initialized as in PEFT, B zero, so that the policy equals its base. The same seed gives the same
 * numbers.
 */

import path from 'node:path';
import type { ModelConfig } from '../model/config.ts';
import { layoutOf } from '../model/parameters.ts';
import type { NamedTensor } from '../model/safetensors.ts';
import { noiseOf } from '../sampler/noise.ts';
import { adapterJson, adapterModules, type NewAdapter } from './adapter-config.ts';
import { type AdapterWeights, adapterLayout } from './adapter-layout.ts';

/**
 * An adapter for the policy in the directory `base`. A is uniform within ±1/sqrt(in) (He et al. 2015 with a = sqrt(5),
 * as PyTorch initializes a linear layer).
 */
export function newAdapter(
  config: ModelConfig,
  settings: NewAdapter,
  base: string,
  seed: number | string,
): AdapterWeights {
  const json = adapterJson(settings, path.resolve(base));
  const { segments } = adapterLayout(adapterModules(json, layoutOf(config)));
  const tensors = segments
    .flatMap(({ parts }) => parts)
    .map(({ name, shape, size }): [string, NamedTensor] => {
      const data = new Float32Array(size);
      if (name.endsWith('lora_A.weight')) {
        const [bound, noise] = [1 / Math.sqrt(shape[1] ?? 1), noiseOf(`lora ${seed} ${name}`)];
        for (let i = 0; i < size; i++) data[i] = bound * (2 * noise(i) - 1);
      }
      return [name, { shape, data }];
    });
  return { json, tensors: new Map(tensors) };
}
