/** A random adapter for tests: seeded, and large enough that it changes what is sampled. */

import { adapterJson, adapterModules } from '../../../trainer/lora/adapter-config.ts';
import { type AdapterWeights, adapterLayout } from '../../../trainer/lora/adapter-layout.ts';
import type { ModelConfig } from '../../../trainer/model/config.ts';
import { layoutOf } from '../../../trainer/model/parameters.ts';
import { uniformNoise } from './random-policy.ts';

export const everyModule = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const;

export interface RandomAdapter {
  readonly seed: number;
  readonly rank: number;
  readonly alpha?: number;
  readonly targetModules?: readonly string[];
}

export function randomAdapter(config: ModelConfig, given: RandomAdapter): AdapterWeights {
  const { seed, rank, alpha = 2 * rank, targetModules = everyModule } = given;
  const json = {
    ...adapterJson({ rank, alpha, targetModules: [...everyModule] }, '/base'),
    target_modules: targetModules,
  };
  const next = uniformNoise(1000 + seed);
  const { segments } = adapterLayout(adapterModules(json, layoutOf(config)));
  const parts = segments.flatMap((segment) => segment.parts);
  const tensors = new Map(
    parts.map(({ name, shape, size }) => {
      const bound = name.endsWith('lora_A.weight') ? 1.7 / Math.sqrt(shape[1] ?? 1) : 0.5 / Math.sqrt(rank);
      return [name, { shape, data: Float32Array.from({ length: size }, () => bound * next()) }] as const;
    }),
  );
  return { json, tensors };
}
