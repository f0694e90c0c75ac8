/** Hunts metrics with SkyRL's names that are computed from other tokens, or from another policy. */

import path from 'node:path';
import { expect, test } from 'vitest';
import type { UpdateMetrics, UpdateSettings } from '../../../protocol/algorithm.ts';
import { differenceMetrics, recordedDifferences } from '../../../trainer/training/logprob-difference.ts';
import type { Sample } from '../../../trainer/training/sample.ts';
import { Updater } from '../../../trainer/update.ts';
import { inScratch, qwen3Dir } from '../tiny-policy.ts';
import { settings, storedRollouts } from './stored-rollouts.ts';

const WHOLE = 'policy/rollout_train_logprobs_abs_diff';
const MOVED = 'policy/minibatch_rollout_logprobs_abs_diff';
const names = (name: string) => ['mean', 'std', 'max', 'min'].map((kind) => `${name}_${kind}`);

test("the differences of an update's tokens in four numbers", () => {
  const sample = (recorded: number[], old: number[]): Sample => ({
    datum: { tokens: [], mask: [], logprobs: [] },
    count: recorded.length,
    recorded: Float64Array.from(recorded),
    old: Float64Array.from(old),
    reference: undefined,
  });
  const told = differenceMetrics('d', recordedDifferences([sample([-1, -2], [-2, -2]), sample([-3], [-1])]));
  expect(told).toEqual({ d_mean: 1, d_std: 1, d_max: 2, d_min: 0 });
  expect(differenceMetrics('d', recordedDifferences([]))).toEqual({});
});

test('are the same whether the old log-probabilities are recomputed or taken from the first pass; later passes are reported apart', () =>
  inScratch(async (dir) => {
    const data = await storedRollouts();
    const made = async (name: string, more: Partial<UpdateSettings>): Promise<UpdateMetrics> =>
      new Updater().run({
        fromDir: qwen3Dir,
        toDir: path.join(dir, name),
        toVersion: 1,
        data,
        algorithm: { ...settings, minibatches: 1, ...more },
      });
    const [seen, anew, moved] = [
      await made('a', {}),
      await made('b', { offPolicyCorrection: { tisRatioType: 'token' } }),
      await made('c', { minibatches: 2, epochs: 2 }),
    ];
    for (const name of names(WHOLE)) expect(anew.metrics![name], name).toBeCloseTo(seen.metrics![name]!, 5);
    expect(seen.metrics![`${WHOLE}_mean`]).toBe(seen.logprobDrift.meanAbs);
    expect(seen.metrics![`${WHOLE}_max`]).toBe(seen.logprobDrift.maxAbs);
    expect(seen.metrics![`${WHOLE}_std`]).toBeGreaterThan(0);
    expect(names(MOVED).map((name) => seen.metrics![name])).toEqual(names(WHOLE).map((name) => seen.metrics![name]));
    expect(moved.metrics![`${MOVED}_max`]).toBeGreaterThan(seen.metrics![`${WHOLE}_max`]!);
    // Four rollouts with rewards 1, 0, 0 and 0.5; the last one has two sequences.
    expect(seen.metrics).toMatchObject({
      'policy/policy_entropy': seen.entropy,
      'policy/policy_lr': settings.learningRate,
      'policy/grad_norm': seen.gradNorm,
      'loss/avg_final_rewards': 0.375,
    });
    expect(seen.metrics).not.toHaveProperty('loss/kl_loss_coef');
  }));

test('final rewards are those after the KL penalty, and its weight is reported', () =>
  inScratch(async (dir) => {
    const data = await storedRollouts(0);
    const updater = new Updater();
    const algorithm = { ...settings, minibatches: 1 };
    await updater.run({ fromDir: qwen3Dir, toDir: path.join(dir, 'v1'), toVersion: 1, data, algorithm });
    const kl = { in: 'reward', estimator: 'k3', coefficient: 0.5 } as const;
    const { metrics } = await updater.run({
      fromDir: path.join(dir, 'v1'),
      toDir: path.join(dir, 'v2'),
      toVersion: 2,
      data,
      algorithm: { ...algorithm, kl },
      referenceDir: qwen3Dir,
    });
    expect(metrics!['loss/avg_final_rewards']).toBeLessThan(0.375);
    expect(metrics!['loss/kl_loss_coef']).toBe(0.5);
  }));
