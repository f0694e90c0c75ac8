/** What is sampled of an adapter's policy: hunted is a bit that training does not multiply with. */

import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { mergedWeights } from '../../../trainer/lora/merged-weights.ts';
import { newAdapter } from '../../../trainer/lora/new-adapter.ts';
import { type ModelConfig, modelConfigJson } from '../../../trainer/model/config.ts';
import { Policy } from '../../../trainer/model/policy.ts';
import { writeSafetensors } from '../../../trainer/model/safetensors.ts';
import { gathered, saveWeights, weightsDigest } from '../../../trainer/model/weights.ts';
import { tf } from '../../../trainer/tensorflow.ts';
import { randomWeights, smallShape } from '../sampler/random-policy.ts';
import { inScratch } from '../tiny-policy.ts';

/** Its larger matrices are read in several pieces. */
const config: ModelConfig = { ...smallShape, layers: 2, hiddenSize: 256, intermediateSize: 700, tiedEmbeddings: false };

async function adapterOf(dir: string, base: string) {
  const { json, tensors } = newAdapter(config, { rank: 3, alpha: 5, targetModules: ['q_proj', 'v_proj', 'down_proj'] }, base, 1);
  const trained = new Map([...tensors].map(([name, { shape, data }], i) => [name, { shape, data: data.map((x, j) => x + 0.05 * Math.sin(3 * i + j)) }]));
  await mkdir(dir);
  await writeFile(path.join(dir, 'adapter_config.json'), JSON.stringify(json));
  await writeSafetensors(path.join(dir, 'adapter_model.safetensors'), trained);
  return { json, tensors: trained };
}

test('an adapter is added to the same bits as in training, and leaves no tensor', () =>
  inScratch(async (dir) => {
    const base = path.join(dir, 'base');
    await mkdir(base);
    await writeFile(path.join(base, 'config.json'), JSON.stringify(modelConfigJson(config)));
    await saveWeights(base, randomWeights(config, 1));
    const adapter = await adapterOf(path.join(dir, 'adapter'), base);
    const policy = new Policy(config, randomWeights(config, 1), adapter);
    const wanted = policy.merged();
    policy.dispose();
    const { numTensors } = tf.memory();
    const found = await gathered(await mergedWeights(path.join(dir, 'adapter'), config));
    expect(tf.memory().numTensors).toBe(numTensors);
    expect(weightsDigest(found)).toBe(weightsDigest(wanted));
    expect(weightsDigest(found)).not.toBe(weightsDigest(randomWeights(config, 1)));
    // Whoever stops half-way leaves none either.
    for await (const [name] of await mergedWeights(path.join(dir, 'adapter'), config)) if (name.includes('q_proj')) break;
    expect(tf.memory().numTensors).toBe(numTensors);
  }));
