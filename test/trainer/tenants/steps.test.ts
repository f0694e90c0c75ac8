/** AdamW of adapters against PyTorch's formulas in float64, every setting at a value that shows. */

import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { AdamParameters } from '../../../protocol/tinker.ts';
import { readVerifiedOptimizer } from '../../../trainer/checkpoints/verified-checkpoint.ts';
import { readSafetensors } from '../../../trainer/model/safetensors.ts';
import type { TenantAdapters } from '../../../trainer/tenants/tenant-adapters.ts';
import { tf } from '../../../trainer/tensorflow.ts';
import { smallConfig } from '../tiny-policy.ts';
import { adam, crossEntropy, datum, settings, withTenants } from './tenants.ts';

interface State {
  readonly weights: ReadonlyMap<string, Float64Array>;
  readonly gradient: ReadonlyMap<string, Float64Array> | undefined;
}

async function stateOf(tenants: TenantAdapters, dir: string): Promise<State> {
  await tenants.save('a', dir, 'training');
  const wide = (tensors: ReadonlyMap<string, { data: Float32Array }>, prefix: string) =>
    new Map(
      [...tensors].flatMap(([name, { data }]) =>
        name.startsWith(prefix) ? [[name.slice(prefix.length), Float64Array.from(data)] as const] : [],
      ),
    );
  const gradient = wide((await readVerifiedOptimizer(dir))!.moments, 'gradient.');
  return {
    weights: wide(await readSafetensors(path.join(dir, 'adapter_model.safetensors')), ''),
    gradient: gradient.size > 0 ? gradient : undefined,
  };
}

/** `torch.optim.AdamW` after `clip_grad_norm_`, one tensor after the other. */
class TorchAdamW {
  readonly #first = new Map<string, Float64Array>();
  readonly #second = new Map<string, Float64Array>();
  #steps = 0;

  next({ weights, gradient }: State, by: AdamParameters): { norm: number; weights: Map<string, Float64Array> } {
    this.#steps += 1;
    const norm = Math.sqrt([...(gradient?.values() ?? [])].flatMap((g) => [...g]).reduce((sum, g) => sum + g * g, 0));
    const clip = by.gradClipNorm > 0 ? Math.min(1, by.gradClipNorm / (norm + 1e-6)) : 1;
    const next = new Map(
      [...weights].map(([name, values]) => {
        const m = this.#first.get(name) ?? new Float64Array(values.length);
        const v = this.#second.get(name) ?? new Float64Array(values.length);
        const moved = values.map((x, i) => {
          const g = (gradient?.get(name)?.[i] ?? 0) * clip;
          m[i] = by.beta1 * m[i]! + (1 - by.beta1) * g;
          v[i] = by.beta2 * v[i]! + (1 - by.beta2) * g * g;
          const root = Math.sqrt(v[i]!) / Math.sqrt(1 - by.beta2 ** this.#steps);
          const rate = by.learningRate / (1 - by.beta1 ** this.#steps);
          return x * (1 - by.learningRate * by.weightDecay) - (rate * m[i]!) / (root + by.eps);
        });
        this.#first.set(name, m);
        this.#second.set(name, v);
        return [name, moved] as const;
      }),
    );
    return { norm, weights: next };
  }
}

const cases: ReadonlyArray<readonly [string, Partial<AdamParameters>]> = [
  ['the defaults', {}],
  ['decay', { weightDecay: 0.5 }],
  ['an eps beside which the root is small', { eps: 0.1 }],
  ['a clipped norm', { gradClipNorm: 0.25, eps: 1e-2 }],
  ['other betas', { beta1: 0, beta2: 0.5 }],
];

describe('steps', () => {
  test.each(cases)('%s', (_name, more) =>
    withTenants(smallConfig, async (tenants, dir) => {
      const own = { ...adam, learningRate: 0.02, ...more };
      const torch = new TorchAdamW();
      await tenants.create('a', settings);
      // The third step has no gradient; the others have one or the sum of two.
      for (const [step, passes] of [1, 2, 0, 1].entries()) {
        for (let i = 0; i < passes; i++) await tenants.pass('a', crossEntropy([datum(24, step * 3 + i)]));
        const before = await stateOf(tenants, path.join(dir, `before ${step}`));
        expect(before.gradient === undefined).toBe(passes === 0);
        const want = torch.next(before, own);
        const { gradNorm } = await tenants.optimStep('a', own);
        expect(Math.abs(gradNorm - want.norm)).toBeLessThanOrEqual(1e-4 * want.norm);
        const after = await stateOf(tenants, path.join(dir, `after ${step}`));
        expect(after.gradient).toBeUndefined();
        for (const [name, values] of want.weights) {
          const off = values.reduce((most, x, i) => Math.max(most, Math.abs(x - after.weights.get(name)![i]!)), 0);
          expect(off, name).toBeLessThan(2e-5);
        }
      }
    }),
  );
});

test('forward passes add no gradient', () =>
  withTenants(smallConfig, async (tenants, dir) => {
    await tenants.create('a', settings);
    const { logprobs, metrics } = await tenants.pass('a', crossEntropy([datum(24, 1)], false));
    const backward = await tenants.pass('a', crossEntropy([datum(24, 1)]));
    expect(backward).toEqual({ logprobs, metrics });
    await tenants.optimStep('a', adam);
    await tenants.pass('a', crossEntropy([datum(24, 1)], false));
    expect((await stateOf(tenants, path.join(dir, 'state'))).gradient).toBeUndefined();
    expect(await tenants.optimStep('a', adam)).toEqual({ gradNorm: 0 });
  }));

test('a pass whose gradient overflows adds nothing, and the model goes on', () =>
  withTenants(smallConfig, async (tenants, dir) => {
    await tenants.create('a', settings);
    await tenants.create('b', settings);
    const good = crossEntropy([datum(6, 1)]);
    const huge = crossEntropy([datum(6, 2, { weights: new Float32Array(6).fill(3e38) })]);
    await tenants.pass('a', good);
    await tenants.pass('b', good);
    await expect(tenants.pass('a', huge)).rejects.toMatchObject({ name: 'UserInputError', field: 'data' });
    const before = tf.memory().numTensors;
    await expect(tenants.pass('a', huge)).rejects.toThrow('nothing was added');
    expect(tf.memory().numTensors).toBe(before);
    expect(await tenants.optimStep('a', adam)).toEqual(await tenants.optimStep('b', adam));
    const [one, other] = [path.join(dir, 'one'), path.join(dir, 'other')];
    const { sha256 } = await tenants.save('a', one, 'training');
    expect((await tenants.save('b', other, 'training')).sha256).toBe(sha256);
    // The first one of all, as well.
    await expect(tenants.pass('a', huge)).rejects.toThrow('nothing was added');
    expect((await tenants.optimStep('a', adam)).gradNorm).toBe(0);
  }));

test.each([
  ['a learning rate', { learningRate: 1e39 }],
  ['a decay', { weightDecay: 1e300 }],
  ['weights whose squares have no end', { learningRate: 1e30 }],
])('a step by %s that no number can hold changes nothing', (_name, more) =>
  withTenants(smallConfig, async (tenants, dir) => {
    const good = crossEntropy([datum(6, 1)]);
    for (const id of ['a', 'b']) {
      await tenants.create(id, settings);
      await tenants.pass(id, good);
    }
    const before = tf.memory().numTensors;
    for (let i = 0; i < 2; i++)
      await expect(tenants.optimStep('a', { ...adam, ...more })).rejects.toMatchObject({
        name: 'UserInputError',
        field: 'learningRate',
        message: expect.stringContaining('The model is as it was before the step'),
      });
    expect(tf.memory().numTensors).toBe(before);
    expect(await tenants.optimStep('a', adam)).toEqual(await tenants.optimStep('b', adam));
    const { sha256 } = await tenants.save('a', path.join(dir, 'one'), 'training');
    expect((await tenants.save('b', path.join(dir, 'other'), 'training')).sha256).toBe(sha256);
  }),
);
