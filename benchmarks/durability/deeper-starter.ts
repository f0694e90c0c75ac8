/** The starter at the cost of a larger model: more layers, which do not change its output until they are trained. */

import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { loadWeights, saveWeights, type Weights } from '../../trainer/model/weights.ts';

export const STARTER = join(packageRoot, 'examples', 'starter');
/** The starter's number of layers. */
export const STARTER_LAYERS = 4;

const OUTPUTS = ['self_attn.o_proj.weight', 'mlp.down_proj.weight'];

/** Adds layers up to `layers`: copies of the starter's layers in turn, with output weights of zero. */
function deepened(weights: Weights, layers: number): Weights {
  const all = new Map(weights);
  for (let layer = STARTER_LAYERS; layer < layers; layer += 1) {
    const prefix = `model.layers.${layer % STARTER_LAYERS}.`;
    for (const [name, { shape, data }] of weights) {
      if (!name.startsWith(prefix)) continue;
      const part = name.slice(prefix.length);
      const copy = OUTPUTS.includes(part) ? new Float32Array(data.length) : data;
      all.set(`model.layers.${layer}.${part}`, { shape, data: copy });
    }
  }
  return all;
}

/** The directory of the starter, or of a deeper one that is made in `scratch` and samples the same tokens. */
export async function starterOf(layers: number, scratch: string): Promise<string> {
  if (layers === STARTER_LAYERS) return STARTER;
  const dir = join(scratch, `starter-${layers}-layers`);
  await mkdir(dir, { recursive: true });
  for (const file of ['tokenizer.json', 'tokenizer_config.json']) await cp(join(STARTER, file), join(dir, file));
  const config = JSON.parse(await readFile(join(STARTER, 'config.json'), 'utf8')) as Record<string, unknown>;
  await writeFile(join(dir, 'config.json'), JSON.stringify({ ...config, num_hidden_layers: layers }));
  await saveWeights(dir, deepened(await loadWeights(STARTER), layers));
  return dir;
}
