/**
 * A critic that is trained as an adapter: its files are PEFT's, its base does not change, interrupted updates end in
 * the same bits, and only the adapter and the head are trained. Not asserted: that PEFT itself reads it (`npm run
 * test:interop`).
 */

import { cp, readFile, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { carryOver } from '../../../trainer/checkpoints/carry-over.ts';
import { readCheckpointRecord } from '../../../trainer/checkpoints/checkpoint.ts';
import { CheckpointTorn } from '../../../trainer/checkpoints/verified-checkpoint.ts';
import { disposeCritic, loadCritic } from '../../../trainer/critic/critic.ts';
import type { NewCritic, UpdateRequest } from '../../../trainer/update-request.ts';
import type { NewLora } from '../../../protocol/algorithm.ts';
import { readSafetensors } from '../../../trainer/model/safetensors.ts';
import { weightsDigest } from '../../../trainer/model/weights.ts';
import { tokenBatch } from '../../../trainer/model/token-batch.ts';
import { tf } from '../../../trainer/tensorflow.ts';
import { Updater } from '../../../trainer/update.ts';
import { inScratch, qwen3Dir } from '../tiny-policy.ts';
import { settings, storedRollouts } from '../training/stored-rollouts.ts';
import { digestsOf, updatesBy } from './critic-updates.ts';

const own = { learningRate: 1e-2, maxGradNorm: 1, weightDecay: 0, betas: [0.9, 0.95] as const, epsilon: 1e-8 };
const algorithm = { ...settings, advantage: 'gae', lambd: 0.95, epochs: 2, critic: own };
const lora = { rank: 2, alpha: 4, targetModules: ['q_proj', 'down_proj'] as const };
const begin: NewCritic = { base: qwen3Dir, seed: 5, lora };
const data = await storedRollouts();

const request = (
  fromDir: string,
  toDir: string,
  toVersion: number,
  more: Partial<UpdateRequest> = {},
): UpdateRequest => ({ fromDir, toDir, toVersion, data, algorithm, critic: begin, ...more });

const HEAD = 'base_model.model.value_head.weight';
const adapterOf = (dir: string) => readSafetensors(path.join(dir, 'critic', 'adapter_model.safetensors'));
const FILES = [
  'critic/adapter_model.safetensors',
  'critic/adapter_config.json',
  'critic/optimizer.safetensors',
  'critic/longhaul.json',
  'longhaul.json',
];
const bytesOf = (dir: string, names = FILES): Promise<string[]> => digestsOf(dir, names);
const updates = updatesBy(request);

const batch = tokenBatch(data);
async function valuesOf(place: Parameters<typeof loadCritic>[0]): Promise<Float32Array> {
  const critic = await loadCritic(place);
  const values = critic.model.values(batch);
  disposeCritic(critic);
  return values;
}

describe('a critic that is an adapter', () => {
  test("is written in PEFT's format, with its whole head among the tensors, and moments of its size", () =>
    inScratch(async (dir) => {
      const to = path.join(dir, 'v1');
      await new Updater().run(request(qwen3Dir, to, 1));
      expect((await readdir(path.join(to, 'critic'))).sort()).toEqual([
        'adapter_config.json',
        'adapter_model.safetensors',
        'config.json',
        'longhaul.json',
        'optimizer.safetensors',
      ]);
      const json = JSON.parse(await readFile(path.join(to, 'critic', 'adapter_config.json'), 'utf8')) as object;
      expect(json).toMatchObject({
        peft_type: 'LORA',
        task_type: null,
        base_model_name_or_path: qwen3Dir,
        r: 2,
        lora_alpha: 4,
        modules_to_save: ['value_head'],
      });
      const tensors = await adapterOf(to);
      expect([...tensors.keys()].sort()).toEqual(
        [
          HEAD,
          ...['self_attn.q_proj', 'mlp.down_proj'].flatMap((module) =>
            [0, 1].flatMap((layer) =>
              ['A', 'B'].map((side) => `base_model.model.model.layers.${layer}.${module}.lora_${side}.weight`),
            ),
          ),
        ].sort(),
      );
      expect(tensors.get(HEAD)?.shape).toEqual([1, 48]);
      const moments = await readSafetensors(path.join(to, 'critic', 'optimizer.safetensors'));
      expect([...moments.keys()].sort()).toEqual(
        ['exp_avg', 'exp_avg_sq'].flatMap((moment) => [...tensors.keys()].map((name) => `${moment}.${name}`)).sort(),
      );
      expect(await readCheckpointRecord(to)).toMatchObject({ critic: { sha256: weightsDigest(tensors) } });
      // All tensors have changed, the head too.
      for (const [name, { data: values }] of moments)
        expect(
          values.some((x) => x !== 0),
          name,
        ).toBe(true);
    }));

  test('starts like a fully trained critic, and its value loss falls', () =>
    inScratch(async (dir) => {
      const [adapter, whole] = [
        await valuesOf({ beside: qwen3Dir, begin }),
        await valuesOf({ beside: qwen3Dir, begin: { base: qwen3Dir, seed: 5 } }),
      ];
      expect(adapter).toEqual(whole);
      const updater = new Updater();
      const dirs = await updates(dir, 'v', 8, () => updater, {
        algorithm: { ...algorithm, learningRate: 1e-6, lambd: 1, valueClip: null },
      });
      const measured = await Promise.all(
        dirs.map(
          async (one) => ((await readCheckpointRecord(one))!.metrics as { metrics: Record<string, number> }).metrics,
        ),
      );
      expect(measured.at(-1)!['critic/critic_loss']!).toBeLessThan(0.2 * measured[0]!['critic/critic_loss']!);
    }));

  test('beside a whole policy and beside an adapter: three updates in one process and in three end in the same bits', () =>
    inScratch(async (dir) => {
      const policy: NewLora = { rank: 2, alpha: 4, targetModules: ['q_proj'], seed: 3 };
      for (const [name, more, file] of [
        ['whole', {}, 'model.safetensors'],
        ['adapter', { lora: policy }, 'adapter_model.safetensors'],
      ] as const) {
        const one = new Updater();
        const live = (await updates(dir, `${name}-live`, 3, () => one, more)).at(-1)!;
        const resumed = (await updates(dir, `${name}-resumed`, 3, () => new Updater(), more)).at(-1)!;
        const names = [...FILES, file, 'optimizer.safetensors'];
        expect(await bytesOf(resumed, names)).toEqual(await bytesOf(live, names));
        await rm(live, { recursive: true });
        await one.run(request(path.join(dir, `${name}-live-2`), live, 3, more));
        expect(await bytesOf(live, names)).toEqual(await bytesOf(resumed, names));
      }
      // The same seed: the two adapters are drawn independently.
      const drawn = async (folder: string) =>
        (await readSafetensors(path.join(dir, 'adapter-live-1', folder, 'adapter_model.safetensors'))).get(
          'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight',
        );
      expect(await drawn('.')).not.toEqual(await drawn('critic'));
    }));

  test('is carried over by a step without training data; its base is the given critic, never a checkpoint of the run', () =>
    inScratch(async (dir) => {
      const [base, v1, v2, v3] = ['base', 'v1', 'v2', 'v3'].map((name) => path.join(dir, name)) as [
        string,
        string,
        string,
        string,
      ];
      await new Updater().run(request(qwen3Dir, base, 1, { critic: { base: qwen3Dir, seed: 5 } }));
      // A run whose base policy has a full critic beside it, and whose first step has no training data.
      await carryOver(base, v1, 1, undefined, begin);
      const json = JSON.parse(await readFile(path.join(v1, 'critic', 'adapter_config.json'), 'utf8')) as {
        base_model_name_or_path: string;
      };
      expect(json.base_model_name_or_path).toBe(path.join(base, 'critic'));
      expect(await valuesOf({ beside: v1, begin })).toEqual(
        await valuesOf({ beside: base, begin: { base: qwen3Dir, seed: 5 } }),
      );
      expect((await readCheckpointRecord(path.join(v1, 'critic')))?.optimizer).toBeUndefined();
      await new Updater().run(request(v1, v2, 2));
      await new Updater().run(request(base, path.join(dir, 'at-once'), 2));
      expect(await bytesOf(v2)).toEqual(await bytesOf(path.join(dir, 'at-once')));
      await carryOver(v2, v3, 3, undefined, begin);
      const kept = ['critic/adapter_model.safetensors', 'critic/adapter_config.json', 'critic/optimizer.safetensors'];
      expect(await bytesOf(v3, kept)).toEqual(await bytesOf(v2, kept));
    }));

  test('a base that is an adapter is continued or merged; an adapter saved beside the policy is always continued', () =>
    inScratch(async (dir) => {
      const [v1, v2] = [path.join(dir, 'v1'), path.join(dir, 'v2')];
      await new Updater().run(request(qwen3Dir, v1, 1));
      const written = await valuesOf({ dir: path.join(v1, 'critic') });
      for (const begins of [
        { base: path.join(v1, 'critic'), seed: 1, lora },
        { base: path.join(v1, 'critic'), seed: 1 },
      ]) {
        expect(await valuesOf({ beside: qwen3Dir, begin: begins })).toEqual(written);
        const to = path.join(dir, `from-${String('lora' in begins)}`);
        await new Updater().run(request(qwen3Dir, to, 1, { critic: begins }));
        expect((await readdir(path.join(to, 'critic'))).includes('adapter_config.json')).toBe('lora' in begins);
      }
      await new Updater().run(request(v1, v2, 2, { critic: { base: qwen3Dir, seed: 5 } }));
      expect(await readdir(path.join(v2, 'critic'))).toContain('adapter_model.safetensors');
      // A policy's adapter in PEFT's format: a head is drawn, and the adapter's base is the critic's base.
      const policy: NewLora = { rank: 2, alpha: 4, targetModules: ['q_proj'], seed: 3 };
      await new Updater().run(request(qwen3Dir, path.join(dir, 'policy'), 1, { lora: policy }));
      const of: NewCritic = { base: path.join(dir, 'policy'), seed: 5 };
      expect(await valuesOf({ beside: qwen3Dir, begin: { ...of, lora: policy } })).toEqual(
        await valuesOf({ beside: qwen3Dir, begin: of }),
      );
      await new Updater().run(request(qwen3Dir, path.join(dir, 'of-policy'), 1, { critic: { ...of, lora: policy } }));
      const json = JSON.parse(
        await readFile(path.join(dir, 'of-policy', 'critic', 'adapter_config.json'), 'utf8'),
      ) as object;
      expect(json).toMatchObject({
        base_model_name_or_path: qwen3Dir,
        target_modules: ['q_proj'],
        modules_to_save: ['value_head'],
      });
    }));

  test('that is torn is named, a policy with such an adapter is refused, and no tensor is left in memory', () =>
    inScratch(async (dir) => {
      const v1 = path.join(dir, 'v1');
      await new Updater().run(request(qwen3Dir, v1, 1));
      const before = tf.memory().numTensors;
      await valuesOf({ beside: v1, begin });
      await valuesOf({ beside: qwen3Dir, begin });
      expect(tf.memory().numTensors).toBe(before);
      const torn = path.join(dir, 'torn');
      await cp(v1, torn, { recursive: true });
      await rm(path.join(torn, 'critic', 'adapter_model.safetensors'));
      await expect(new Updater().run(request(torn, path.join(dir, 'x'), 2))).rejects.toBeInstanceOf(CheckpointTorn);
      await expect(new Updater().run(request(path.join(v1, 'critic'), path.join(dir, 'x'), 2))).rejects.toThrow(
        /modules_to_save = \["value_head"\]/,
      );
    }));
});
