/**
 * A run that trains an adapter: the base does not change, checkpoints are PEFT's files, and interrupted updates end in
 * the same bits.
 */

import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test, vi } from 'vitest';
import { carryOver } from '../../../trainer/checkpoints/carry-over.ts';
import { readCheckpointRecord } from '../../../trainer/checkpoints/checkpoint.ts';
import { readCritic } from '../../../trainer/critic/critic-files.ts';
import type { Datum, UpdateRequest } from '../../../trainer/update-request.ts';
import type { NewLora } from '../../../protocol/algorithm.ts';
import { readVerifiedPolicy } from '../../../trainer/checkpoints/verified-checkpoint.ts';
import { readSafetensors } from '../../../trainer/model/safetensors.ts';
import { gathered, loadWeights, weightsDigest } from '../../../trainer/model/weights.ts';
import { loadPolicy } from '../../../trainer/sampler/policy-loader.ts';
import { runSft } from '../../../trainer/sft.ts';
import { Updater } from '../../../trainer/update.ts';
import { inScratch, qwen3Dir, someTokens } from '../tiny-policy.ts';

const lora: NewLora = { rank: 4, alpha: 8, targetModules: ['q_proj', 'v_proj', 'down_proj'], seed: 3 };

const data: Datum[] = [31, 18, 26].map((length, i) => {
  const tokens = someTokens(length, i + 1);
  return {
    tokens,
    mask: tokens.map((_, t) => (t > 4 ? 1 : 0)),
    logprobs: tokens.map(() => -6),
    advantage: i === 1 ? -1 : 0.5,
  };
});

const request = (fromDir: string, toDir: string, toVersion: number): UpdateRequest => ({
  fromDir,
  toDir,
  toVersion,
  data,
  lora,
  algorithm: {
    learningRate: 1e-2,
    epochs: 1,
    minibatches: 2,
    clipLow: 0.2,
    clipHigh: 0.28,
    maxGradNorm: 1,
    weightDecay: 0,
    betas: [0.9, 0.95],
    epsilon: 1e-8,
    microBatchTokens: 128,
  },
});

const json = async <T>(file: string): Promise<T> => JSON.parse(await readFile(file, 'utf8')) as T;

/** Reads the policy in a process with another working directory. */
async function elsewhere(dir: string): Promise<{ base: string; digest: string }> {
  const module = (name: string) => JSON.stringify(new URL(`../../../trainer/${name}`, import.meta.url));
  const script = `
    const { readVerifiedPolicy } = await import(${module('checkpoints/verified-checkpoint.ts')});
    const { weightsDigest } = await import(${module('model/weights.ts')});
    const { weights, adapter } = await readVerifiedPolicy(${JSON.stringify(dir)});
    if (weights.size === 0) throw new Error('no weights');
    console.log(JSON.stringify({ base: adapter.json.base_model_name_or_path, digest: weightsDigest(adapter.tensors) }));
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: tmpdir(),
  });
  return JSON.parse(stdout) as { base: string; digest: string };
}

const adapterOf = (dir: string): Promise<Buffer> => readFile(path.join(dir, 'adapter_model.safetensors'));

describe('an update with an adapter', () => {
  test('writes the adapter alone, with moments of its size, and its own digest', () =>
    inScratch(async (dir) => {
      const to = path.join(dir, 'v1');
      const { sha256, gradNorm } = await new Updater().run(request(qwen3Dir, to, 1));
      expect((await readdir(to)).sort()).toEqual([
        'adapter_config.json',
        'adapter_model.safetensors',
        'config.json',
        'longhaul.json',
        'optimizer.safetensors',
        'tokenizer.json',
        'tokenizer_config.json',
      ]);
      const tensors = await readSafetensors(path.join(to, 'adapter_model.safetensors'));
      expect(tensors.size).toBe(2 * 2 * 3);
      expect(tensors.get('base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight')?.shape).toEqual([4, 48]);
      expect([...(await readSafetensors(path.join(to, 'optimizer.safetensors'))).keys()].sort()).toEqual(
        ['exp_avg', 'exp_avg_sq'].flatMap((moment) => [...tensors.keys()].map((name) => `${moment}.${name}`)).sort(),
      );
      expect(gradNorm).toBeGreaterThan(0);
      expect(weightsDigest(tensors)).toBe(sha256);
      expect(await readCheckpointRecord(to)).toMatchObject({ sha256, version: 1 });
    }));

  test('three updates in one process and in three end in the same bits; the sampler gets the base with the adapter', () =>
    inScratch(async (dir) => {
      const [one, three] = [path.join(dir, 'one'), path.join(dir, 'three')];
      await Promise.all([one, three].map((folder) => mkdir(folder)));
      const resident = new Updater();
      for (const [folder, updater] of [
        [one, () => resident],
        [three, () => new Updater()],
      ] as const) {
        let from = qwen3Dir;
        for (const version of [1, 2, 3]) {
          const to = path.join(folder, `step-${version}`);
          await updater().run(request(from, to, version));
          from = to;
        }
      }
      expect((await adapterOf(path.join(one, 'step-3'))).equals(await adapterOf(path.join(three, 'step-3')))).toBe(
        true,
      );
      const base = await loadWeights(qwen3Dir);
      const weights = await gathered((await loadPolicy(path.join(one, 'step-3'))).weights);
      const changed = [...weights].filter(
        ([name, { data: values }]) =>
          !Buffer.from(values.buffer, values.byteOffset, values.byteLength).equals(
            Buffer.from(base.get(name)!.data.buffer, base.get(name)!.data.byteOffset, base.get(name)!.data.byteLength),
          ),
      );
      expect(changed.map(([name]) => name).sort()).toEqual(
        ['mlp.down_proj', 'self_attn.q_proj', 'self_attn.v_proj']
          .flatMap((module) => [0, 1].map((layer) => `model.layers.${layer}.${module}.weight`))
          .sort(),
      );
    }));

  test('a new adapter changes nothing: B is zero', () =>
    inScratch(async (dir) => {
      const to = path.join(dir, 'v1');
      await carryOver(qwen3Dir, to, 1, lora);
      expect(weightsDigest(await gathered((await loadPolicy(to)).weights))).toBe(
        weightsDigest(await loadWeights(qwen3Dir)),
      );
    }));

  test('a step without training data carries the adapter over, and its base is never a checkpoint', () =>
    inScratch(async (dir) => {
      const [v1, v2, v3] = [1, 2, 3].map((n) => path.join(dir, `step-${n}`)) as [string, string, string];
      await carryOver(qwen3Dir, v1, 1, lora);
      const { sha256 } = await new Updater().run(request(v1, v2, 2));
      expect((await carryOver(v2, v3, 3, lora)).sha256).toBe(sha256);
      expect((await readVerifiedPolicy(v3)).adapter?.json['base_model_name_or_path']).toBe(qwen3Dir);
      expect((await readdir(v3)).includes('optimizer.safetensors')).toBe(true);
    }));

  test.each([
    ['the adapter', (base: string, adapter: string) => path.relative(adapter, base)],
    ['the working directory', (base: string) => path.relative(process.cwd(), base)],
  ])('a base given by its path from %s is written as an absolute path', (_, pathOf) =>
    inScratch(async (dir) => {
      const [base, adapter] = ['base', 'adapter'].map((name) => path.join(dir, name)) as [string, string];
      await cp(qwen3Dir, base, { recursive: true });
      const { sha256 } = await carryOver(base, adapter, 1, lora);
      const file = path.join(adapter, 'adapter_config.json');
      await writeFile(
        file,
        JSON.stringify({ ...(await json<object>(file)), base_model_name_or_path: pathOf(base, adapter) }),
      );
      const [trained, carried] = ['trained', 'carried'].map((name) => path.join(dir, 'deeper', 'down', name)) as [
        string,
        string,
      ];
      const told = await new Updater().run(request(adapter, trained, 2));
      expect((await carryOver(adapter, carried, 2, lora)).sha256).toBe(sha256);
      for (const [to, digest] of [
        [trained, told.sha256],
        [carried, sha256],
      ] as const) {
        expect(await json(path.join(to, 'adapter_config.json'))).toMatchObject({ base_model_name_or_path: base, r: 4 });
        expect(await elsewhere(to)).toEqual({ base, digest });
      }
    }),
  );

  test('a new adapter for a policy with a relative path has an absolute path in its configuration, a critic too', () =>
    inScratch(async (dir) => {
      const [base, to] = [path.join(dir, 'base'), path.join(dir, 'deeper', 'down', 'v1')];
      await cp(qwen3Dir, base, { recursive: true });
      const from = path.relative(process.cwd(), base);
      const { sha256 } = await carryOver(from, to, 1, lora);
      expect(await elsewhere(to)).toEqual({ base, digest: sha256 });
      const { adapter } = await readCritic({ beside: from, begin: { base: from, seed: 1, lora } });
      expect(adapter?.json).toMatchObject({ base_model_name_or_path: base, modules_to_save: ['value_head'] });
    }));

  test('a base beside the adapter is found by its relative path', () =>
    inScratch(async (dir) => {
      await cp(qwen3Dir, path.join(dir, 'base'), { recursive: true });
      await mkdir(path.join(dir, 'adapter'));
      for (const name of ['adapter_config.json', 'adapter_model.safetensors']) {
        await cp(path.join(qwen3Dir, 'lora', name), path.join(dir, 'adapter', name));
      }
      // PEFT's folder has no config.json: the base's is read.
      await expect(loadPolicy(path.join(dir, 'adapter'))).rejects.toThrow(/base_model_name_or_path/);
      await cp(path.join(dir, 'base'), path.join(dir, 'adapter', 'qwen3-tiny'), { recursive: true });
      expect((await loadPolicy(path.join(dir, 'adapter'))).config.family).toBe('qwen3');
    }));
});

test('supervised training of an adapter lowers the loss and writes the adapter alone', () =>
  inScratch(async (dir) => {
    const losses: number[] = [];
    const to = path.join(dir, 'sft');
    const sequence = { tokens: someTokens(24, 9), mask: someTokens(24, 9).map((_, t) => (t > 2 ? 1 : 0)) };
    await runSft({
      initial: qwen3Dir,
      data: () => [sequence],
      stages: [{ steps: 12, batchSize: 1, learningRate: 2e-2, warmup: 0, schedule: 'constant' }],
      seed: 1,
      toDir: to,
      lora,
      onStep: ({ loss }) => losses.push(loss),
    });
    expect(losses.at(-1)!).toBeLessThan(losses[0]! - 0.5);
    expect(await readdir(to)).toContain('adapter_model.safetensors');
    expect(await readdir(to)).not.toContain('model.safetensors');
    expect((await loadPolicy(to)).config.family).toBe('qwen3');
  }));

test('an adapter that was made with dropout is trained without it, with one warning', () =>
  inScratch(async (dir) => {
    const plain = path.join(dir, 'plain');
    await new Updater().run(request(qwen3Dir, plain, 1));
    const dropping = path.join(dir, 'dropping');
    await cp(plain, dropping, { recursive: true });
    const file = path.join(dropping, 'adapter_config.json');
    await writeFile(file, (await readFile(file, 'utf8')).replace(/"lora_dropout": *0/, '"lora_dropout": 0.05'));
    const written = vi.spyOn(process.stderr, 'write').mockImplementation(() => true);
    const updated = async (from: string, to: string) =>
      (await new Updater().run(request(from, path.join(dir, to), 2))).sha256;
    const bits = [await updated(plain, 'a'), await updated(dropping, 'b'), await updated(dropping, 'c')];
    const notes = written.mock.calls.filter(([text]) => String(text).includes('dropout')).map(([text]) => String(text));
    written.mockRestore();
    expect(new Set(bits).size).toBe(1);
    expect(notes).toEqual([
      expect.stringMatching(/lora_dropout = 0\.05 has no effect: adapters are trained without dropout/),
    ]);
  }));
