/**
 * Updates that train a critic: what it learns, which files are written, and that interrupted updates end in the same
 * bits of policy and critic.
 */

import { cp, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { defineAdvantage } from '../../../trainer/algorithms/advantages/registry.ts';
import { defineLoss } from '../../../trainer/algorithms/losses/registry.ts';
import { carryOver } from '../../../trainer/checkpoints/carry-over.ts';
import { readCheckpointRecord } from '../../../trainer/checkpoints/checkpoint.ts';
import type { UpdateRequest } from '../../../trainer/update-request.ts';
import type { NewLora } from '../../../protocol/algorithm.ts';
import { readSafetensors } from '../../../trainer/model/safetensors.ts';
import { loadWeights, weightsDigest } from '../../../trainer/model/weights.ts';
import { tf } from '../../../trainer/tensorflow.ts';
import { NoCredit } from '../../../trainer/training/advantages.ts';
import { Updater } from '../../../trainer/update.ts';
import { CheckpointTorn } from '../../../trainer/checkpoints/verified-checkpoint.ts';
import { inScratch, qwen3Dir } from '../tiny-policy.ts';
import { settings, storedRollouts } from '../training/stored-rollouts.ts';
import { digestsOf, updatesBy } from './critic-updates.ts';

const critic = { learningRate: 3e-3, maxGradNorm: 1, weightDecay: 0, betas: [0.9, 0.95] as const, epsilon: 1e-8 };
const algorithm = { ...settings, advantage: 'gae', lambd: 0.95, epochs: 2, critic };
const data = await storedRollouts();

const request = (
  fromDir: string,
  toDir: string,
  toVersion: number,
  more: Partial<UpdateRequest> = {},
): UpdateRequest => ({ fromDir, toDir, toVersion, data, algorithm, critic: { base: qwen3Dir, seed: 5 }, ...more });

const FILES = [
  'model.safetensors',
  'optimizer.safetensors',
  'critic/model.safetensors',
  'critic/optimizer.safetensors',
  'critic/longhaul.json',
  'longhaul.json',
];
const bytesOf = (dir: string, names = FILES): Promise<string[]> => digestsOf(dir, names);
const updates = updatesBy(request);

describe('an update with a critic', () => {
  test('writes the critic beside the policy, each under its own digest', () =>
    inScratch(async (dir) => {
      const to = path.join(dir, 'v1');
      const { sha256, metrics } = await new Updater().run(request(qwen3Dir, to, 1));
      expect((await readdir(path.join(to, 'critic'))).sort()).toEqual([
        'config.json',
        'longhaul.json',
        'model.safetensors',
        'optimizer.safetensors',
      ]);
      const weights = await loadWeights(path.join(to, 'critic'));
      expect(weights.get('value_head.weight')?.shape).toEqual([1, 48]);
      expect(weights.has('lm_head.weight')).toBe(false);
      const own = weightsDigest(weights);
      const record = await readCheckpointRecord(to);
      expect(record).toMatchObject({ sha256, critic: { sha256: own } });
      expect(sha256).toBe(weightsDigest(await loadWeights(to)));
      const moments = await readSafetensors(path.join(to, 'critic/optimizer.safetensors'));
      expect(await readCheckpointRecord(path.join(to, 'critic'))).toEqual({
        step: 1,
        version: 1,
        sha256: own,
        optimizer: { steps: 4, sha256: weightsDigest(moments) },
      });
      expect(metrics).toMatchObject({ 'critic/critic_lr': 3e-3 });
      for (const name of [
        'critic_loss',
        'values_mean',
        'values_clipfrac',
        'grad_norm',
        'returns_mean',
        'explained_variance',
      ]) {
        expect(metrics?.[`critic/${name}`], name).toBeTypeOf('number');
      }
    }));

  test('the value loss falls and the explained variance grows, update by update', () =>
    inScratch(async (dir) => {
      const updater = new Updater();
      const dirs = await updates(dir, 'v', 8, () => updater, {
        algorithm: { ...algorithm, learningRate: 1e-6, lambd: 1, valueClip: null },
      });
      const metrics = await Promise.all(
        dirs.map(async (one) => (await readCheckpointRecord(one))!.metrics as { metrics: Record<string, number> }),
      );
      const [first, last] = [metrics[0]!.metrics, metrics.at(-1)!.metrics];
      expect(last['critic/critic_loss']!).toBeLessThan(0.1 * first['critic/critic_loss']!);
      expect(first['critic/explained_variance']!).toBeLessThan(0.1);
      expect(last['critic/explained_variance']!).toBeGreaterThan(0.8);
    }));

  test('clipping holds values near where they were', () =>
    inScratch(async (dir) => {
      const loose = await new Updater().run(
        request(qwen3Dir, path.join(dir, 'a'), 1, { algorithm: { ...algorithm, epochs: 6, valueClip: null } }),
      );
      const tight = await new Updater().run(
        request(qwen3Dir, path.join(dir, 'b'), 1, { algorithm: { ...algorithm, epochs: 6, valueClip: 1e-3 } }),
      );
      expect(loose.metrics!['critic/values_clipfrac']).toBe(0);
      expect(tight.metrics!['critic/values_clipfrac']).toBeGreaterThan(0.5);
    }));

  test("the critic's own minibatches are its own optimizer steps", () =>
    inScratch(async (dir) => {
      await new Updater().run(
        request(qwen3Dir, path.join(dir, 'a'), 1, {
          algorithm: { ...algorithm, critic: { ...critic, minibatches: 3 } },
        }),
      );
      expect((await readCheckpointRecord(path.join(dir, 'a')))?.optimizer?.steps).toBe(4);
      expect((await readCheckpointRecord(path.join(dir, 'a', 'critic')))?.optimizer?.steps).toBe(6);
    }));

  test('three updates in one process and in three end in the same bits of policy and critic, and again after a retry', () =>
    inScratch(async (dir) => {
      const one = new Updater();
      const live = (await updates(dir, 'live', 3, () => one)).at(-1)!;
      const resumed = (await updates(dir, 'resumed', 3, () => new Updater())).at(-1)!;
      const bytes = await bytesOf(live);
      expect(await bytesOf(resumed)).toEqual(bytes);
      // Killed before the rename: the last version is made again.
      await rm(live, { recursive: true });
      await one.run(request(path.join(dir, 'live-2'), live, 3));
      expect(await bytesOf(live)).toEqual(bytes);
      await one.run(request('/nowhere', live, 3));
      expect(await bytesOf(live)).toEqual(bytes);
    }));

  test('updates that fail half-way, or that have no critic, leave no critic in memory', () =>
    inScratch(async (dir) => {
      const { critic: _, ...plain } = { ...algorithm, advantage: 'grpo' };
      const one = new Updater();
      const [v1, v2] = [path.join(dir, 'v1'), path.join(dir, 'v2')];
      await one.run(request(qwen3Dir, path.join(dir, 'plain-1'), 1, { algorithm: plain }));
      const without = tf.memory().numTensors;
      await one.run(request(qwen3Dir, v1, 1));
      const held = tf.memory().numTensors;
      expect(held).toBeGreaterThan(without);
      // The critic is trained already when the policy fails; both are read again.
      let passes = 0;
      defineLoss('fails-late', {
        correctable: true,
        terms: ({ mask }) => {
          passes += 1;
          if (passes === 3) throw new RangeError('no loss');
          return {
            slopes: new Float64Array(mask.length).fill(0.1),
            values: new Float64Array(mask.length),
            metrics: {},
          };
        },
      });
      await expect(one.run(request(v1, v2, 2, { algorithm: { ...algorithm, loss: 'fails-late' } }))).rejects.toThrow(
        'no loss',
      );
      expect(tf.memory().numTensors).toBeLessThan(held);
      await one.run(request(v1, v2, 2));
      await new Updater().run(request(v1, path.join(dir, 'w2'), 2));
      expect(await bytesOf(v2)).toEqual(await bytesOf(path.join(dir, 'w2')));
      const kept = async (name: string, ...settings: Array<Partial<UpdateRequest>>): Promise<number> => {
        const [updater, before] = [new Updater(), tf.memory().numTensors];
        for (const [i, more] of settings.entries())
          await updater.run(request(qwen3Dir, path.join(dir, `${name}-${i}`), 1, more));
        return tf.memory().numTensors - before;
      };
      expect(await kept('after', {}, { algorithm: plain })).toBe(await kept('alone', { algorithm: plain }));
    }));

  test('an adapter is trained with a full critic, and the next update continues both', () =>
    inScratch(async (dir) => {
      const lora: NewLora = { rank: 2, alpha: 4, targetModules: ['q_proj'], seed: 3 };
      const one = new Updater();
      const names = FILES.map((name) => (name === 'model.safetensors' ? 'adapter_model.safetensors' : name));
      const live = (await updates(dir, 'live', 2, () => one, { lora })).at(-1)!;
      const resumed = (await updates(dir, 'resumed', 2, () => new Updater(), { lora })).at(-1)!;
      expect(await bytesOf(resumed, names)).toEqual(await bytesOf(live, names));
      // A critic that starts from an adapter: the base with the adapter merged.
      const { metrics } = await new Updater().run(
        request(qwen3Dir, path.join(dir, 'of'), 1, { critic: { base: path.join(dir, 'live-1'), seed: 1 } }),
      );
      expect(metrics!['critic/critic_loss']).toBeGreaterThan(0);
    }));

  test('a step without an update copies the critic with its moments, and nothing if there is no critic yet', () =>
    inScratch(async (dir) => {
      const [v1, v2, v3, none] = ['v1', 'v2', 'v3', 'none'].map((name) => path.join(dir, name)) as [
        string,
        string,
        string,
        string,
      ];
      await new Updater().run(request(qwen3Dir, v1, 1));
      await carryOver(v1, v2, 2, undefined, { base: qwen3Dir, seed: 5 });
      const kept = ['critic/model.safetensors', 'critic/optimizer.safetensors', 'critic/config.json'];
      expect(await bytesOf(v2, kept)).toEqual(await bytesOf(v1, kept));
      await new Updater().run(request(v2, v3, 3));
      await new Updater().run(request(v1, path.join(dir, 'w3'), 3));
      expect(await bytesOf(path.join(dir, 'w3'))).toEqual(await bytesOf(v3));
      await carryOver(qwen3Dir, none, 1, undefined, { base: qwen3Dir, seed: 5 });
      await new Updater().run(request(none, path.join(dir, 'after'), 2));
      await new Updater().run(request(qwen3Dir, path.join(dir, 'at-once'), 2));
      expect(await bytesOf(path.join(dir, 'after'))).toEqual(await bytesOf(path.join(dir, 'at-once')));
    }));

  test('a critic that is torn, or not the one that was written, is never used; a run without a critic does not read it', () =>
    inScratch(async (dir) => {
      const v1 = path.join(dir, 'v1');
      const updater = new Updater();
      await updater.run(request(qwen3Dir, v1, 1));
      await updater.run(request(qwen3Dir, path.join(dir, 'other'), 1, { critic: { base: qwen3Dir, seed: 6 } }));
      const broken = async (change: (critic: string) => Promise<void>): Promise<string> => {
        const copy = path.join(dir, `copy-${Math.random()}`);
        await cp(v1, copy, { recursive: true });
        await change(path.join(copy, 'critic'));
        return copy;
      };
      const cases = [
        await broken((own) => rm(own, { recursive: true })),
        await broken((own) => writeFile(path.join(own, 'model.safetensors'), 'half')),
        await broken((own) => rm(path.join(own, 'optimizer.safetensors'))),
        await broken(async (own) => {
          await rm(own, { recursive: true });
          await cp(path.join(dir, 'other', 'critic'), own, { recursive: true });
        }),
      ];
      for (const from of cases) {
        await expect(updater.run(request(from, path.join(dir, 'x'), 2))).rejects.toBeInstanceOf(CheckpointTorn);
      }
      const { critic: _, ...plain } = { ...algorithm, advantage: 'grpo' };
      await updater.run(request(cases[0]!, path.join(dir, 'plain'), 2, { algorithm: plain }));
      expect((await readdir(path.join(dir, 'plain'))).includes('critic')).toBe(false);
    }));

  test("a user's own estimator receives values, and the critic is trained on its returns", () =>
    inScratch(async (dir) => {
      const seen: number[] = [];
      defineAdvantage('towards-seven', {
        over: 'token',
        estimate: ({ mask, values }) => {
          seen.push(values?.length ?? 0);
          return {
            advantages: Float64Array.from(mask, (_, i) => (i % 2 === 0 ? 1 : -1)),
            returns: new Float64Array(mask.length).fill(7),
          };
        },
      });
      const { metrics, trainedTokens } = await new Updater().run(
        request(qwen3Dir, path.join(dir, 'a'), 1, {
          algorithm: { ...algorithm, advantage: 'towards-seven', valueClip: null },
        }),
      );
      expect(seen).toEqual([trainedTokens]);
      expect(metrics).toMatchObject({ 'critic/returns_mean': 7 });
      // All returns are equal: there is no variance to explain.
      expect(metrics).not.toHaveProperty('critic/explained_variance');
    }));

  test('gae without a critic, and a critic without returns, are refused', () =>
    inScratch(async (dir) => {
      const { critic: _, ...without } = algorithm;
      await expect(
        new Updater().run(request(qwen3Dir, path.join(dir, 'a'), 1, { algorithm: without })),
      ).rejects.toThrow(/gae needs the values of a critic/);
      const grpo = { algorithm: { ...algorithm, advantage: 'grpo' } };
      await expect(new Updater().run(request(qwen3Dir, path.join(dir, 'a'), 1, grpo))).rejects.toBeInstanceOf(NoCredit);
      expect(await readdir(dir)).toEqual([]);
    }));
});
