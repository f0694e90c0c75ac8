/** Hunts merged weights for sampling that differ in a bit from those in training. */

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

/** A configuration whose larger matrices are read in several pieces. */
const config: ModelConfig = { ...smallShape, layers: 2, hiddenSize: 256, intermediateSize: 700, tiedEmbeddings: false };

async function adapterOf(dir: string, base: string) {
  const { json, tensors } = newAdapter(
    config,
    { rank: 3, alpha: 5, targetModules: ['q_proj', 'v_proj', 'down_proj'] },
    base,
    1,
  );
  const trained = new Map(
    [...tensors].map(([name, { shape, data }], i) => [
      name,
      { shape, data: data.map((x, j) => x + 0.05 * Math.sin(3 * i + j)) },
    ]),
  );
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
    // A reader that stops half-way leaves no tensor either.
    for await (const [name] of await mergedWeights(path.join(dir, 'adapter'), config))
      if (name.includes('q_proj')) break;
    expect(tf.memory().numTensors).toBe(numTensors);
  }));

/** Why: PEFT adds the base's head to the file of an adapter for the head. */
test.each([
  ["one that equals the base's is dropped", 0, 'lm_head', undefined],
  ['another one is refused', 1, 'lm_head', /lm_head\.base_layer\.weight differs from the base's lm_head\.weight/],
  [
    'one without a tensor in the base is refused',
    0,
    'nowhere',
    /nowhere\.base_layer\.weight is the copy of a tensor that the base lacks/,
  ],
])('a copy of the base in an adapter: %s', (_, difference, module, refused) =>
  inScratch(async (dir) => {
    const base = path.join(dir, 'base');
    await mkdir(base);
    await writeFile(path.join(base, 'config.json'), JSON.stringify(modelConfigJson(config)));
    await saveWeights(base, randomWeights(config, 1));
    const { tensors } = await adapterOf(path.join(dir, 'adapter'), base);
    const wanted = weightsDigest(await gathered(await mergedWeights(path.join(dir, 'adapter'), config)));
    const head = randomWeights(config, 1).get('lm_head.weight')!;
    // In the last of its pieces.
    const data = head.data.with(-1, head.data.at(-1)! + difference);
    const copy = [`base_model.model.${module}.base_layer.weight`, { shape: head.shape, data }] as const;
    await writeSafetensors(path.join(dir, 'adapter', 'adapter_model.safetensors'), new Map([...tensors, copy]));
    const found = mergedWeights(path.join(dir, 'adapter'), config).then(gathered);
    if (refused === undefined) expect(weightsDigest(await found)).toBe(wanted);
    else await expect(found).rejects.toThrow(refused);
  }),
);
