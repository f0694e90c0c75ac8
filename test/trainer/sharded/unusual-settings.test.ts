/**
 * Hunts settings and data for which shards give another result than one worker. Compares all metrics, and the moments
 * of a first step, up to the order of sums. Not asserted: that the settings are sensible.
 */

import path from 'node:path';
import { expect, test } from 'vitest';
import { readCheckpointRecord } from '../../../trainer/checkpoints/checkpoint.ts';
import type { Datum, PlanRequest } from '../../../trainer/update-request.ts';
import type { UpdateSettings } from '../../../protocol/algorithm.ts';
import { readSafetensors } from '../../../trainer/model/safetensors.ts';
import { metricsOf, Updater } from '../../../trainer/update.ts';
import { asSampled, inScratch, qwen3Dir } from '../tiny-policy.ts';
import { carryOut, worker } from './parts.ts';

const algorithm: UpdateSettings = {
  learningRate: 1e-3,
  epochs: 1,
  minibatches: 1,
  clipLow: 0.2,
  clipHigh: 0.28,
  maxGradNorm: 1,
  weightDecay: 0.01,
  betas: [0.9, 0.95],
  epsilon: 1e-8,
  microBatchTokens: 96,
};
const critic = {
  learningRate: 3e-3,
  minibatches: 1,
  maxGradNorm: 1,
  weightDecay: 0,
  betas: [0.9, 0.95] as const,
  epsilon: 1e-8,
};

/**
 * Data that another policy recorded, so that ratios are clipped and masked. It has two groups; one rollout has two
 * sequences, one is not trained on, one has no token that counts.
 */
const sampled = await asSampled(qwen3Dir, [40, 23, 61, 12, 33, 50, 18, 44]);
const credited = sampled.map((one, i): Datum => ({
  ...one,
  logprobs: one.logprobs.map((x, t) => x + (one.mask[t] ? 0.4 * Math.sin(t + i) : 0)),
  credit: { reward: Math.min(i, 6) % 3, group: `g${Math.min(i, 6) % 2}`, rollout: `r${Math.min(i, 6)}` },
}));
const data: Datum[] = [
  ...credited,
  { tokens: [], mask: [], logprobs: [], credit: { reward: 2, group: 'g0', rollout: 'overlong' } },
  { ...credited[1]!, mask: credited[1]!.mask.map(() => 0), credit: { reward: 1, group: 'g1', rollout: 'silent' } },
];
const heated = data.map((datum) => ({ ...datum, temperatures: datum.tokens.map(() => 0.7) }));

type Case = readonly [name: string, shards: number, settings: Partial<UpdateSettings>, more?: Partial<PlanRequest>];

const cases: readonly Case[] = [
  ['packed passes', 3, { packing: true }],
  ['layers computed again', 2, { gradientCheckpointing: true }],
  ['a mean over sequences', 3, { lossReduction: 'sequence_mean' }],
  ['a mean over prompts', 3, { lossReduction: 'prompt_mean' }],
  ['a constant to divide by', 3, { lossReduction: 'seq_mean_token_sum_norm', maxSequenceTokens: 64 }],
  ['a mean of passes, none of them cut finer', 2, { lossReduction: 'token_mean_legacy' }],
  ['entropy', 3, { entropyCoefficient: 0.02 }],
  ['KL in the loss', 3, { kl: { in: 'loss', estimator: 'k3', coefficient: 0.05 } }, { referenceDir: qwen3Dir }],
  [
    'KL in the reward',
    3,
    { kl: { in: 'reward', estimator: 'k2', coefficient: 0.05 }, advantage: 'reinforce++' },
    { referenceDir: qwen3Dir },
  ],
  ['minibatches that do not divide', 2, { minibatches: 3 }],
  ['more minibatches than sequences', 2, { minibatches: 20 }],
  ['passes of less than a sequence', 3, { microBatchTokens: 1 }],
  ['packed passes of less than a sequence', 3, { microBatchTokens: 1, packing: true }],
  ['more shards than sequences', 64, {}],
  ['temperatures', 3, {}, { data: heated }],
  ['gspo', 3, { loss: 'gspo' }],
  [
    'a loss to what sampled, masked',
    3,
    {
      loss: 'cispo',
      cispo: { clipLow: 1, clipHigh: 4, anchor: 'rollout' },
      offPolicyCorrection: { sequenceMaskMetric: 'geometric', geoMaskHigh: 1.01, geoMaskLow: 0.99 } as never,
    },
  ],
  ['a critic, packed, with more shards than sequences', 64, { advantage: 'gae', lambd: 0.9, critic, packing: true }],
  [
    "a critic's minibatches that do not divide",
    3,
    { advantage: 'gae', critic: { ...critic, minibatches: 3 }, valueClip: null, advantageBatchNormalise: true },
  ],
];

/** Largest difference between two sets of tensors, divided by their largest number. */
async function momentsApart(a: string, b: string): Promise<number> {
  const [one, other] = await Promise.all([a, b].map((dir) => readSafetensors(path.join(dir, 'optimizer.safetensors'))));
  let [off, largest] = [0, 0];
  for (const [name, { data: values }] of one!)
    for (const [i, x] of values.entries())
      [off, largest] = [Math.max(off, Math.abs(x - other!.get(name)!.data[i]!)), Math.max(largest, Math.abs(x))];
  expect(largest).toBeGreaterThan(0);
  return off / largest;
}

test.each(cases.map(([name, shards, settings, more = {}]) => [name, shards, settings, more] as const))(
  '%s: %i shards train what one worker does',
  (_, shards, settings, more) =>
    inScratch(async (dir) => {
      const request: PlanRequest = {
        dir: path.join(dir, 'parts'),
        shards,
        fromDir: qwen3Dir,
        toDir: path.join(dir, 'sharded'),
        toVersion: 1,
        data,
        algorithm: { ...algorithm, ...settings },
        ...more,
      };
      const one = worker();
      const planned = await one.planUpdate(request);
      await carryOut(request, planned, () => one);
      const made = metricsOf((await readCheckpointRecord(request.toDir))!);
      const plain = await new Updater().run({ ...request, toDir: path.join(dir, 'plain') });
      expect(Object.keys(made.metrics!).sort()).toEqual(Object.keys(plain.metrics!).sort());
      for (const [name, value] of Object.entries({
        ...plain.metrics,
        loss: plain.loss,
        kl: plain.kl,
        entropy: plain.entropy,
        gradNorm: plain.gradNorm,
        clipFraction: plain.clipFraction,
      })) {
        expect({ ...made.metrics, ...made }[name], name).toBeCloseTo(value, 3);
      }
      const steps = settings.critic?.minibatches === 3 || settings.minibatches !== undefined;
      expect(await momentsApart(request.toDir, path.join(dir, 'plain'))).toBeLessThan(steps ? 1e-2 : 1e-4);
      if (settings.critic)
        expect(await momentsApart(path.join(request.toDir, 'critic'), path.join(dir, 'plain', 'critic'))).toBeLessThan(
          steps ? 1e-2 : 1e-4,
        );
    }),
);
