/**
 * Hunts state that one adapter leaves in another, that a failed call leaves behind, or that saving and loading loses:
 * random histories of calls, with saves in between and beside other adapters, end in the same bits.
 */

import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { AdapterSettings, TinkerPass } from '../../../protocol/tinker.ts';
import type { AdapterTrainer } from '../../../trainer/tenants/definition.ts';
import type { TenantAdapters } from '../../../trainer/tenants/tenant-adapters.ts';
import { readSafetensors } from '../../../trainer/model/safetensors.ts';
import { tf } from '../../../trainer/tensorflow.ts';
import { noiseOf } from '../../../trainer/sampler/noise.ts';
import { smallConfig, someTokens } from '../tiny-policy.ts';
import { adam, crossEntropy, datum, settings, unevenWeights, withTenants } from './tenants.ts';

type Call = (trainer: AdapterTrainer, id: string) => Promise<unknown>;

function randomPass(seed: number): TinkerPass {
  const noise = noiseOf(`pass ${seed}`);
  const lengths = Array.from({ length: 1 + Math.floor(3 * noise(0)) }, (_, i) => 1 + Math.floor(60 * noise(i + 1)));
  const loss = (['ppo', 'dro', 'gspo'] as const)[Math.floor(noise(9) / 0.2)];
  const data = lengths.map((length, i) =>
    datum(
      length,
      seed * 10 + i,
      loss !== undefined
        ? {
            logprobs: Float32Array.from(someTokens(length, seed, 100), (x) => -6 - x / 50),
            advantages: unevenWeights(length, i),
            ...(loss === 'gspo' && { ratioMask: new Float32Array(length).fill(1, Math.floor(length / 2)) }),
          }
        : { weights: unevenWeights(length, i) },
    ),
  );
  const config = { ...(loss === 'dro' && { beta: 0.05 }) };
  return { data, loss: loss ?? 'cross_entropy', config, backward: noise(10) < 0.8 };
}

function randomCalls(seed: number, count: number): Call[] {
  const noise = noiseOf(`calls ${seed}`);
  return Array.from({ length: count }, (_, i): Call => {
    if (noise(i) < 0.65) return (trainer, id) => trainer.pass(id, randomPass(seed * 100 + i));
    const rate = 0.02 * noise(100 + i);
    const step = {
      ...adam,
      learningRate: rate,
      weightDecay: noise(200 + i),
      gradClipNorm: noise(300 + i) < 0.5 ? 0 : 1,
    };
    return (trainer, id) => trainer.optimStep(id, step);
  });
}

const asText = (answer: unknown): string =>
  JSON.stringify(answer, (_, value: unknown) => (value instanceof Float32Array ? [...value] : value));

/** Runs the calls; `between` may do other things before each. */
async function answersOf(
  trainer: AdapterTrainer,
  id: string,
  calls: readonly Call[],
  between: (at: number) => Promise<void> = async () => undefined,
): Promise<string[]> {
  const answers: string[] = [];
  for (const [at, call] of calls.entries()) {
    await between(at);
    answers.push(asText(await call(trainer, id)));
  }
  return answers;
}

const bitsOf = async (trainer: AdapterTrainer, id: string, dir: string): Promise<string> => {
  await trainer.save(id, dir, 'training');
  const files = [path.join(dir, 'adapter_model.safetensors'), path.join(dir, 'optimizer.safetensors')];
  const tensors = await Promise.all(files.map((file) => readSafetensors(file)));
  return asText(tensors.map((file) => [...file].map(([name, { data }]) => [name, data])));
};

const others: readonly AdapterSettings[] = [
  { ...settings, rank: 1, seed: 5 },
  { ...settings, rank: 8, mlp: false },
  { ...settings, rank: 2, attention: false },
];

describe.each([1, 2, 3])('history %d', (seed) => {
  const calls = randomCalls(seed, 10);

  test('saved and loaded at random points, and beside other adapters: the same bits as alone', () =>
    withTenants(smallConfig, async (tenants, dir) => {
      await tenants.create('alone', settings);
      const alone = await answersOf(tenants, 'alone', calls);
      await tenants.create('cut', settings);
      for (const [i, other] of others.entries()) await tenants.create(`other ${i}`, other);
      const noise = noiseOf(`cuts ${seed}`);
      let id = 'cut';
      const cut: string[] = [];
      for (const [at, call] of calls.entries()) {
        if (noise(at) < 0.5) {
          const state = path.join(dir, `state ${at}`);
          await tenants.save(id, state, 'training');
          await tenants.drop(id);
          id = noise(50 + at) < 0.5 ? 'cut' : `cut ${at}`;
          await tenants.load(id, state, { optimizer: true });
        }
        const other = `other ${at % others.length}`;
        await (at % 4 === 3 ? tenants.optimStep(other, adam) : tenants.pass(other, randomPass(seed * 7 + at)));
        cut.push(asText(await call(tenants, id)));
      }
      expect(cut).toEqual(alone);
      expect(await bitsOf(tenants, id, path.join(dir, 'b'))).toBe(await bitsOf(tenants, 'alone', path.join(dir, 'a')));
    }));
});

test('a pass that throws adds nothing, also in the middle', () =>
  withTenants(smallConfig, async (tenants, dir) => {
    await tenants.create('a', settings);
    await tenants.pass('a', crossEntropy([datum(20, 1)]));
    const before = await bitsOf(tenants, 'a', path.join(dir, 'before'));
    // The longer datum is a batch of its own, and is computed first.
    const far = { logprobs: new Float32Array(9).fill(-1000), advantages: new Float32Array(9).fill(1) };
    const near = { logprobs: new Float32Array(300).fill(-6), advantages: new Float32Array(300).fill(1) };
    const data = [datum(9, 2, far), datum(300, 3, near)];
    const pass: TinkerPass = { data, loss: 'importance_sampling', config: {}, backward: true };
    await expect(tenants.pass('a', pass)).rejects.toMatchObject({
      name: 'UserInputError',
      field: 'data[0].logprobs[0]',
    });
    expect(await bitsOf(tenants, 'a', path.join(dir, 'after'))).toBe(before);
  }));

describe('files', () => {
  const existing = (dir: string): Promise<string[]> => readdir(dir);

  test('an adapter without its optimizer starts with empty moments and gradient', () =>
    withTenants(smallConfig, async (tenants, dir) => {
      const [sampler, training] = [path.join(dir, 'sampler'), path.join(dir, 'training')];
      await tenants.create('a', settings);
      await tenants.pass('a', crossEntropy([datum(20, 1)]));
      await tenants.optimStep('a', adam);
      await tenants.pass('a', crossEntropy([datum(20, 2)]));
      const saved = await tenants.save('a', sampler, 'sampler');
      expect(await tenants.save('a', training, 'training')).toMatchObject({ sha256: saved.sha256 });
      await tenants.load('b', training, { optimizer: false });
      await tenants.load('c', sampler, { optimizer: false });
      for (const id of ['b', 'c']) expect(await tenants.optimStep(id, adam)).toEqual({ gradNorm: 0 });
      await expect(tenants.load('d', sampler, { optimizer: true })).rejects.toMatchObject({ name: 'UserInputError' });
    }));

  test('a directory is written once: the same again is accepted, something else refused', () =>
    withTenants(smallConfig, async (tenants, dir) => {
      const to = path.join(dir, 'saved');
      await tenants.create('a', settings);
      const first = await tenants.save('a', to, 'training');
      expect(first.bytes).toBeGreaterThan(0);
      expect(await tenants.save('a', to, 'training')).toEqual(first);
      await expect(tenants.save('a', to, 'sampler')).rejects.toMatchObject({ name: 'UserInputError', field: 'dir' });
      await tenants.pass('a', crossEntropy([datum(20, 1)]));
      await expect(tenants.save('a', to, 'training')).rejects.toMatchObject({ name: 'UserInputError', field: 'dir' });
      expect((await existing(dir)).sort()).toEqual(['base', 'saved']);
      await tenants.load('b', to, { optimizer: true });
      expect(await tenants.optimStep('b', adam)).toEqual({ gradNorm: 0 });
    }));

  test('an adapter of another base is refused, and the one in memory stays', () =>
    withTenants(smallConfig, (one, first) =>
      withTenants(smallConfig, async (two, second) => {
        await one.create('a', settings);
        await one.save('a', path.join(first, 'a'), 'training');
        await two.create('a', { ...settings, seed: 9 });
        const before = await bitsOf(two, 'a', path.join(second, 'before'));
        const load = two.load('a', path.join(first, 'a'), { optimizer: true });
        await expect(load).rejects.toMatchObject({ name: 'UserInputError', field: 'dir' });
        expect(await bitsOf(two, 'a', path.join(second, 'after'))).toBe(before);
      }),
    ));
});

test('a new adapter equals its base, whatever its rank and modules; its seed gives its numbers', () =>
  withTenants(smallConfig, async (tenants: TenantAdapters, dir) => {
    const pass = crossEntropy([datum(30, 1)], false);
    const seen = new Set<string>();
    for (const [i, own] of [settings, ...others].entries()) {
      await tenants.create(`a ${i}`, own);
      seen.add(asText((await tenants.pass(`a ${i}`, pass)).logprobs));
    }
    expect(seen.size).toBe(1);
    await tenants.create('same', settings);
    await tenants.create('other', { ...settings, seed: 4 });
    const [one, same, other] = [
      await bitsOf(tenants, 'a 0', path.join(dir, 'one')),
      await bitsOf(tenants, 'same', path.join(dir, 'same')),
      await bitsOf(tenants, 'other', path.join(dir, 'other')),
    ];
    expect(same).toBe(one);
    expect(other).not.toBe(one);
  }));

test('calls, also failed ones, leave no tensors behind', () =>
  withTenants(smallConfig, async (tenants, dir) => {
    const round = async (at: number): Promise<number> => {
      await tenants.create('a', settings);
      await tenants.pass('a', crossEntropy([datum(40, 1), datum(140, 2)]));
      await tenants.pass('a', crossEntropy([datum(40, 1)]));
      await tenants.save('a', path.join(dir, `${at}`), 'training');
      await tenants.load('a', path.join(dir, `${at}`), { optimizer: true });
      await tenants.optimStep('a', adam);
      await tenants.pass('a', crossEntropy([datum(40, 1)], false));
      const far = { logprobs: new Float32Array(9).fill(-1000), advantages: new Float32Array(9).fill(1) };
      const pass: TinkerPass = { data: [datum(9, 2, far)], loss: 'ppo', config: {}, backward: true };
      await expect(tenants.pass('a', { ...pass, loss: 'importance_sampling' })).rejects.toThrow('data[0]');
      await expect(tenants.load('a', path.join(dir, 'nowhere'), { optimizer: true })).rejects.toThrow();
      await tenants.drop('a');
      return tf.memory().numTensors;
    };
    const first = await round(0);
    expect([await round(1), await round(2)]).toEqual([first, first]);
  }));
