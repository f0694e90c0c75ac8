/**
 * The gradient of an adapter beside its base: against finite differences, against the trainer that merges adapters, and
 * over batches that are cut in different places.
 */

import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { TinkerDatum } from '../../../protocol/tinker.ts';
import { Learner } from '../../../trainer/learner.ts';
import type { ModelConfig } from '../../../trainer/model/config.ts';
import { readModelConfig } from '../../../trainer/model/describe-policy.ts';
import { unpackFlat } from '../../../trainer/model/parameters.ts';
import type { NamedTensor } from '../../../trainer/model/safetensors.ts';
import type { TokenBatch } from '../../../trainer/model/token-batch.ts';
import { readVerifiedOptimizer, readVerifiedPolicy } from '../../../trainer/checkpoints/verified-checkpoint.ts';
import { passBatches } from '../../../trainer/tenants/pass-batches.ts';
import type { TenantAdapters } from '../../../trainer/tenants/tenant-adapters.ts';
import { smallConfig } from '../tiny-policy.ts';
import { adam, crossEntropy, datum, settings, unevenWeights, untied, withTenants } from './tenants.ts';

const lengths = [200, 37, 16, 1];
const data = lengths.map((length, i) => datum(length, i + 1, { weights: unevenWeights(length, i) }));

/** The adapter's sum of gradients, by PEFT's names. */
async function gradientOf(tenants: TenantAdapters, id: string, dir: string): Promise<Map<string, NamedTensor>> {
  await tenants.save(id, dir, 'training');
  const { moments } = (await readVerifiedOptimizer(dir))!;
  const prefix = 'gradient.';
  return new Map(
    [...moments].flatMap(([name, tensor]) => (name.startsWith(prefix) ? [[name.slice(prefix.length), tensor]] : [])),
  );
}

/** A new adapter's B is zero: after some steps, both matrices have gradients. */
async function trained(tenants: TenantAdapters, id: string): Promise<void> {
  await tenants.create(id, settings);
  for (let step = 0; step < 3; step++) {
    await tenants.pass(id, crossEntropy(data));
    await tenants.optimStep(id, { ...adam, learningRate: 0.05 });
  }
}

/** The same gradient and log-probabilities by the trainer that merges adapters. */
async function merged(dir: string, base: string, of: readonly TinkerDatum[]) {
  const { weights, adapter } = await readVerifiedPolicy(dir);
  const learner = new Learner(await readModelConfig(base), weights, adapter);
  const [batch] = [...passBatches(of, 1e6)];
  const { positions, targets, members, ids, blocks, length } = batch!;
  const own: TokenBatch = {
    batch: 1,
    length,
    ids,
    positions,
    labels: targets,
    rowOf: positions,
    indexOf: positions,
    ...(blocks && { blocks }),
  };
  let logprobs: Float32Array = new Float32Array();
  learner.forwardBackward(own, false, (seen) => {
    logprobs = seen.logprobs;
    return Float32Array.from(members.flatMap((i) => [...of[i]!.weights!].map((weight) => -weight)));
  });
  const flat = learner.gradients.flatten(learner.policy);
  const gradient = unpackFlat(learner.policy.trainable.layout, flat.dataSync() as Float32Array);
  learner.dispose();
  return { gradient, logprobs };
}

const norm = (values: Float32Array): number => Math.sqrt(values.reduce((sum, x) => sum + x * x, 0));
const apart = (a: Float32Array, b: Float32Array): number => norm(a.map((x, i) => x - b[i]!)) / norm(b);

const families: ReadonlyArray<readonly [string, ModelConfig]> = [
  ['qwen3, tied', smallConfig],
  ['qwen3, untied', untied],
  ['qwen2 with biases', { ...smallConfig, family: 'qwen2' }],
  ['llama', { ...untied, family: 'llama' }],
];

describe.each(families)('%s', (_name, config) => {
  test('gradients and log-probabilities are those of the merged adapter', () =>
    withTenants(config, async (tenants, dir) => {
      await trained(tenants, 'a');
      // One class of lengths, so that the merged trainer takes all in one batch.
      const some = data.slice(1);
      const { logprobs } = await tenants.pass('a', crossEntropy(some));
      const own = await gradientOf(tenants, 'a', path.join(dir, 'a'));
      const other = await merged(path.join(dir, 'a'), path.join(dir, 'base'), some);
      const ours = Float32Array.from([...logprobs].flatMap((one) => [...one]));
      expect(apart(ours, other.logprobs)).toBeLessThan(1e-5);
      expect([...own.keys()].sort()).toEqual([...other.gradient.keys()].sort());
      expect([...own.keys()].some((name) => name.includes('lm_head'))).toBe(!config.tiedEmbeddings);
      for (const [name, { data: values }] of other.gradient)
        expect(apart(own.get(name)!.data, values), name).toBeLessThan(2e-4);
    }));
});

test('the gradient is the slope of the loss', () =>
  withTenants(untied, async (tenants, dir) => {
    await trained(tenants, 'a');
    await tenants.pass('a', crossEntropy(data));
    const gradient = await gradientOf(tenants, 'a', path.join(dir, 'a'));
    const lossAt = async (by: number): Promise<number> => {
      // One plain step along the gradient: AdamW without memory moves by the rate times the sign.
      await tenants.load('moved', path.join(dir, 'a'), { optimizer: true });
      await tenants.optimStep('moved', { ...adam, learningRate: Math.abs(by), beta1: 0, beta2: 0 });
      return (await tenants.pass('moved', crossEntropy(data, false))).metrics['loss:sum']!;
    };
    const before = (await tenants.pass('a', crossEntropy(data, false))).metrics['loss:sum']!;
    const h = 2e-5;
    const l1 = [...gradient.values()].reduce((sum, { data: g }) => sum + g.reduce((s, x) => s + Math.abs(x), 0), 0);
    expect((before - (await lossAt(h))) / h / l1).toBeCloseTo(1, 1);
  }));

test('weights times two double the gradient, and zero weights give none', () =>
  withTenants(untied, async (tenants, dir) => {
    const times = async (id: string, by: number) => {
      await tenants.create(id, settings);
      const scaled = data.map((one) => ({ ...one, weights: one.weights!.map((w) => w * by) }));
      const { metrics } = await tenants.pass(id, crossEntropy(scaled));
      return { loss: metrics['loss:sum']!, gradient: await gradientOf(tenants, id, path.join(dir, id)) };
    };
    const [one, two, none] = [await times('one', 1), await times('two', 2), await times('none', 0)];
    expect(two.loss).toBe(2 * one.loss);
    expect(none.loss).toBe(0);
    for (const [name, { data: values }] of one.gradient) {
      expect(two.gradient.get(name)!.data, name).toEqual(values.map((x) => 2 * x));
      expect(
        none.gradient.get(name)!.data.every((x) => x === 0),
        name,
      ).toBe(true);
    }
  }));

test('bounds of memory change the rounding alone', () =>
  withTenants(untied, (wide, first) =>
    withTenants(
      untied,
      async (narrow, second) => {
        const results = await Promise.all(
          [wide, narrow].map(async (tenants, i) => {
            const [own, dir] = [`own ${i}`, path.join(i === 0 ? first : second, 'own')];
            await tenants.create(own, settings);
            const begun = await tenants.pass(own, crossEntropy(data));
            const { gradNorm } = await tenants.optimStep(own, { ...adam, gradClipNorm: 1e-9, eps: 1 });
            const again = await tenants.pass(own, crossEntropy(data));
            return { begun, again, gradNorm, gradient: await gradientOf(tenants, own, dir) };
          }),
        );
        const [a, b] = results as [(typeof results)[0], (typeof results)[0]];
        expect(Math.abs(b.gradNorm / a.gradNorm - 1)).toBeLessThan(1e-5);
        for (const [i, logprobs] of a.begun.logprobs.entries())
          expect(apart(b.begun.logprobs[i]!, logprobs)).toBeLessThan(1e-5);
        for (const [name, { data: values }] of a.gradient)
          if (name.includes('lora_B')) expect(apart(b.gradient.get(name)!.data, values), name).toBeLessThan(1e-4);
        expect(b.again.metrics['loss:sum']).toBeCloseTo(a.again.metrics['loss:sum']!, 2);
      },
      // 7 rows of logits, a sequence a batch, and every layer computed again.
      { batchTokens: 1, headFloats: 7 * untied.vocabSize, keptFloats: 0 },
    ),
  ));

test('gradients of several passes add up to that of one pass', () =>
  withTenants(smallConfig, async (tenants, dir) => {
    await tenants.create('whole', settings);
    await tenants.create('parts', settings);
    const whole = await tenants.pass('whole', crossEntropy(data));
    for (const [i, one] of data.entries()) {
      const { logprobs } = await tenants.pass('parts', crossEntropy([one]));
      expect(apart(logprobs[0]!, whole.logprobs[i]!)).toBeLessThan(1e-5);
    }
    const [a, b] = [
      await gradientOf(tenants, 'whole', path.join(dir, 'whole')),
      await gradientOf(tenants, 'parts', path.join(dir, 'parts')),
    ];
    for (const [name, { data: values }] of a) {
      if (name.includes('lora_B')) expect(apart(b.get(name)!.data, values), name).toBeLessThan(1e-4);
    }
  }));
