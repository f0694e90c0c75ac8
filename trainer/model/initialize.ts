/** Fresh weights: each number is a function of the seed, the tensor's name and the number's index alone. */

import { noiseOf } from '../sampler/noise.ts';
import type { ModelConfig } from './config.ts';
import { layoutOf } from './parameters.ts';
import type { Weights } from './weights.ts';

/** Standard normal numbers, two per pair of uniform ones (Box and Muller 1958). */
export function normals(count: number, key: string): Float32Array {
  const uniform = noiseOf(key);
  const values = new Float32Array(count);
  for (let i = 0; i < count; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(1 - uniform(i)));
    const angle = 2 * Math.PI * uniform(i + 1);
    values[i] = radius * Math.cos(angle);
    if (i + 1 < count) values[i + 1] = radius * Math.sin(angle);
  }
  return values;
}

/**
 * Norms are 1, biases 0, matrices normal with standard deviation `initializerRange`. Matrices that write into the
 * residual stream are smaller by sqrt(2 · layers) (Radford et al. 2019, §2.3).
 */
export function initializeWeights(config: ModelConfig, seed: string): Weights {
  const weights: Weights = new Map();
  for (const { name, shape, size } of layoutOf(config).segments.flatMap((segment) => segment.parts)) {
    const residual = name.endsWith('o_proj.weight') || name.endsWith('down_proj.weight');
    const deviation = config.initializerRange / (residual ? Math.sqrt(2 * config.layers) : 1);
    const fresh = (): Float32Array => {
      if (name.endsWith('.bias')) return new Float32Array(size);
      if (shape.length === 1) return new Float32Array(size).fill(1);
      return normals(size, `${seed} ${name}`).map((x) => x * deviation);
    };
    const data = fresh();
    weights.set(name, { shape: [...shape], data });
  }
  return weights;
}
