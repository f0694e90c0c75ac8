/** Hunts torn checkpoints that are sampled from or trained on although their bytes are not those that were written. */

import { readFileSync, truncateSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { carryOver } from '../../../trainer/checkpoints/carry-over.ts';
import { writeCheckpoint } from '../../../trainer/checkpoints/checkpoint.ts';
import { newAdapter } from '../../../trainer/lora/new-adapter.ts';
import { readModelConfig } from '../../../trainer/model/describe-policy.ts';
import { gathered, loadWeights } from '../../../trainer/model/weights.ts';
import { loadTrainee } from '../../../trainer/resident-policy.ts';
import { loadPolicy } from '../../../trainer/sampler/policy-loader.ts';
import { loadVerifiedWeights, readVerifiedOptimizer } from '../../../trainer/checkpoints/verified-checkpoint.ts';
import { inScratch, qwen3Dir } from '../tiny-policy.ts';

const moments = new Map([['m', { shape: [3], data: Float32Array.of(1, 2, 3) }]]);

async function checkpoint(dir: string): Promise<string> {
  const to = path.join(dir, 'step-1');
  await writeCheckpoint(to, {
    weights: await loadWeights(qwen3Dir),
    optimizer: { steps: 4, moments },
    step: 1,
    version: 1,
    fromDir: qwen3Dir,
  });
  return to;
}

/** Writes a checkpoint with an adapter only; its base is intact. */
async function adapterCheckpoint(dir: string): Promise<string> {
  const to = path.join(dir, 'step-1');
  const adapter = newAdapter(
    await readModelConfig(qwen3Dir),
    { rank: 2, alpha: 4, targetModules: ['q_proj'] },
    qwen3Dir,
    1,
  );
  const weights = new Map([...adapter.tensors].map(([name, { shape, data }]) => [name, { shape: [...shape], data }]));
  await writeCheckpoint(to, {
    weights,
    adapter: adapter.json,
    optimizer: undefined,
    step: 1,
    version: 1,
    fromDir: qwen3Dir,
  });
  return to;
}

/** The weights, as the sampler reads them. */
const sampled = async (dir: string) => gathered((await loadPolicy(dir)).weights);

/** Neither the sampler nor the trainer accepts the policy, and no later version is made from it. */
async function expectTorn(dir: string, to: string): Promise<void> {
  const torn = {
    name: 'CheckpointTorn',
    message: expect.stringMatching(/step-1 is torn \(.+\) and is not used: restore its files/),
  };
  await expect(sampled(to)).rejects.toMatchObject(torn);
  await expect(loadTrainee(to)).rejects.toMatchObject(torn);
  await expect(carryOver(to, path.join(dir, 'step-2'), 2)).rejects.toMatchObject(torn);
}

function flipped(file: string, at: number): void {
  const bytes = readFileSync(file);
  bytes[bytes.length + at]! ^= 1;
  writeFileSync(file, bytes);
}

const half = (file: string) => truncateSync(file, Math.floor(statSync(file).size / 2));

describe('a checkpoint', () => {
  test('that is complete is read as it was written', () =>
    inScratch(async (dir) => {
      const to = await checkpoint(dir);
      expect(await loadVerifiedWeights(to)).toEqual(await loadWeights(to));
      expect(await readVerifiedOptimizer(to)).toMatchObject({ steps: 4 });
      expect((await sampled(to)).size).toBeGreaterThan(0);
    }));

  test.each<[string, string, (file: string) => void]>([
    ['with one bit of its last weight flipped', 'model.safetensors', (file) => flipped(file, -1)],
    ['whose weights were cut short', 'model.safetensors', half],
    ['whose weights are gone', 'model.safetensors', unlinkSync],
    ['whose weights are empty', 'model.safetensors', (file) => truncateSync(file, 0)],
    ['whose configuration was cut short', 'config.json', half],
    ['whose configuration is gone', 'config.json', unlinkSync],
    ['whose record was cut short', 'longhaul.json', half],
    ['whose record lacks the digest', 'longhaul.json', (file) => writeFileSync(file, '{"step":1,"version":1}')],
  ])('%s is neither sampled from, trained on nor carried over', (_, name, damage) =>
    inScratch(async (dir) => {
      const to = await checkpoint(dir);
      damage(path.join(to, name));
      await expectTorn(dir, to);
    }),
  );

  test.each<[string, string, (file: string) => void]>([
    ['with one bit flipped', 'adapter_model.safetensors', (file) => flipped(file, -1)],
    ['that was cut short', 'adapter_model.safetensors', half],
    ['whose configuration was cut short', 'adapter_config.json', half],
    ['whose configuration is gone', 'adapter_config.json', unlinkSync],
  ])('of an adapter %s is neither sampled from, trained on nor carried over', (_, name, damage) =>
    inScratch(async (dir) => {
      const to = await adapterCheckpoint(dir);
      expect((await sampled(to)).size).toBeGreaterThan(0);
      damage(path.join(to, name));
      await expectTorn(dir, to);
    }),
  );

  test.each<[string, (file: string) => void]>([
    ['flipped', (file) => flipped(file, -2)],
    ['cut short', half],
    ['gone', unlinkSync],
  ])('whose moments are %s can be sampled from and is not trained on', (_, damage) =>
    inScratch(async (dir) => {
      const to = await checkpoint(dir);
      damage(path.join(to, 'optimizer.safetensors'));
      await expect(readVerifiedOptimizer(to)).rejects.toMatchObject({ name: 'CheckpointTorn' });
      await expect(loadTrainee(to)).rejects.toMatchObject({ name: 'CheckpointTorn' });
      await expect(carryOver(to, path.join(dir, 'step-2'), 2)).rejects.toMatchObject({ name: 'CheckpointTorn' });
      expect((await sampled(to)).size).toBeGreaterThan(0);
    }),
  );

  test('of an earlier record without a digest of its moments is read', () =>
    inScratch(async (dir) => {
      const to = await checkpoint(dir);
      const file = path.join(to, 'longhaul.json');
      writeFileSync(file, readFileSync(file, 'utf8').replace(/,\s*"sha256": "[0-9a-f]+"\s*\}/, '}'));
      expect(await readVerifiedOptimizer(to)).toMatchObject({ steps: 4 });
    }));
});
