/**
 * A KL penalty on rewards must use the policy in training. Hunts a penalty for the distance of an older policy, which
 * sampled the rollouts, from the reference. Not asserted: what such training learns.
 */

import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { EmbeddedTrainer } from '../../../trainer/embedded/embedded-trainer.ts';
import type { Datum } from '../../../trainer/update-request.ts';
import type { UpdateMetrics, UpdateSettings } from '../../../protocol/algorithm.ts';
import { Updater } from '../../../trainer/update.ts';
import { asSampled, inScratch, qwen3Dir } from '../tiny-policy.ts';

const kl = { in: 'reward', estimator: 'k2', coefficient: 0.1 } as const;
const algorithm: UpdateSettings = {
  learningRate: 1e-3,
  epochs: 1,
  minibatches: 1,
  maxGradNorm: 1,
  weightDecay: 0,
  betas: [0.9, 0.95],
  epsilon: 1e-8,
  microBatchTokens: 256,
  kl,
};

/** Two groups, recorded by a policy whose log-probabilities are `drift` nats away from those of the policy in `dir`. */
async function dataOf(dir: string, drift: number): Promise<Datum[]> {
  const sampled = await asSampled(dir, [40, 23, 61, 33]);
  return sampled.map(({ tokens, mask, logprobs }, i) => ({
    tokens,
    mask,
    logprobs: logprobs.map((logprob, t) => (mask[t] === 1 ? logprob - drift : 0)),
    credit: { reward: i % 2, group: `g${i >> 1}`, rollout: `r${i}` },
  }));
}

async function updated(
  dir: string,
  name: string,
  drift: number,
  more: Partial<UpdateSettings> = {},
): Promise<UpdateMetrics> {
  const data = await dataOf(qwen3Dir, drift);
  return new Updater().run({
    fromDir: qwen3Dir,
    referenceDir: qwen3Dir,
    toDir: path.join(dir, name),
    toVersion: 1,
    data,
    algorithm: { ...algorithm, ...more },
  });
}

describe('KL in the reward', () => {
  test('is 0 for a policy that is the reference, whichever policy sampled, and the update equals that of fresh rollouts', () =>
    inScratch(async (dir) => {
      const [fresh, stale] = [await updated(dir, 'fresh', 0), await updated(dir, 'stale', 0.5)];
      expect(stale.metrics).toMatchObject({ 'loss/avg_kl': 0, 'loss/avg_kl_max': 0 });
      expect(stale.sha256).toBe(fresh.sha256);
      expect(stale.metrics!['policy/rollout_train_logprobs_abs_diff_mean']).toBeCloseTo(0.5, 4);
    }));

  test('a loss with a ratio to the sampling policy uses the recorded log-probabilities', () =>
    inScratch(async (dir) => {
      const settings = { loss: 'rollout_is', clipLow: 0.9, clipHigh: 9 };
      const [fresh, stale] = [await updated(dir, 'fresh', 0, settings), await updated(dir, 'stale', 0.5, settings)];
      expect(stale.metrics).toMatchObject({ 'loss/avg_kl': 0 });
      expect(stale.gradNorm / fresh.gradNorm).toBeCloseTo(Math.exp(0.5), 3);
    }));

  test('needs one pass over the data if the reference is the policy itself', () =>
    inScratch(async (dir) => {
      const trainer = new EmbeddedTrainer();
      let passes = 0;
      const counting = {
        loadState: async (state: Parameters<EmbeddedTrainer['loadState']>[0]) => {
          const session = await trainer.loadState(state);
          const forward = session.forward.bind(session);
          session.forward = (...given) => {
            passes += 1;
            return forward(...given);
          };
          return session;
        },
        score: () => Promise.reject(new Error('the policy is in memory')),
      };
      const data = await dataOf(qwen3Dir, 0);
      await new Updater(counting).run({
        fromDir: qwen3Dir,
        referenceDir: qwen3Dir,
        toDir: path.join(dir, 'one'),
        toVersion: 1,
        data,
        algorithm,
      });
      expect(passes).toBe(1);
    }));
});
