/**
 * PPO on the real engine: the policy is rewarded for one kind of token, and its critic learns to predict the reward.
 */

import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createEmbeddedEngine, type EmbeddedEngine } from '../../../trainer/embedded/embedded-engine.ts';
import type { Datum, UpdateRequest } from '../../../trainer/update-request.ts';
import { inScratch, qwen3Dir } from '../tiny-policy.ts';

let engine: EmbeddedEngine;
beforeAll(async () => {
  engine = await createEmbeddedEngine();
});
afterAll(() => engine.close());

/** The reward: the share of even tokens. The prompt does not mention it. */
async function rolledOut(dir: string, version: number, count = 24): Promise<Datum[]> {
  const prompt = [304, 452, 450];
  return Promise.all(
    Array.from({ length: count }, async (_, i) => {
      const sampling = { temperature: 1, topP: 1, topK: 0, maxTokens: 12 };
      const { tokens, logprobs } = await engine.generate({
        policy: { dir, version },
        cacheKey: `${version} ${i}`,
        tokens: [...prompt, 300 + (i % 4)],
        sampling,
        stopTokenIds: [],
        noiseKey: `noise ${version} ${i}`,
      });
      const before = [...prompt, 300 + (i % 4)];
      const reward = tokens.filter((token) => token % 2 === 0).length / tokens.length;
      return {
        tokens: [...before, ...tokens],
        mask: [...before.map(() => 0), ...tokens.map(() => 1)],
        logprobs: [...before.map(() => 0), ...logprobs],
        credit: { reward, group: `${i % 4}`, rollout: `${version}/${i}` },
      };
    }),
  );
}

const algorithm: UpdateRequest['algorithm'] = {
  advantage: 'gae',
  lambd: 0.95,
  learningRate: 2e-3,
  epochs: 2,
  minibatches: 2,
  clipLow: 0.2,
  clipHigh: 0.28,
  maxGradNorm: 1,
  weightDecay: 0,
  betas: [0.9, 0.999],
  epsilon: 1e-8,
  microBatchTokens: 512,
  critic: { learningRate: 2e-3, maxGradNorm: 1, weightDecay: 0, betas: [0.9, 0.999], epsilon: 1e-8 },
};

const mean = (values: readonly number[]): number => values.reduce((sum, x) => sum + x, 0) / values.length;

test('five updates raise the reward, and the value loss falls', () =>
  inScratch(async (dir) => {
    let from = qwen3Dir;
    const [rewards, losses, drifts]: [number[], number[], number[]] = [[], [], []];
    for (let version = 1; version <= 5; version++) {
      const data = await rolledOut(from, version - 1);
      const toDir = path.join(dir, `v${version}`);
      const { metrics, logprobDrift } = await engine.update({
        fromDir: from,
        toDir,
        toVersion: version,
        data,
        algorithm,
        critic: { base: qwen3Dir, seed: 1 },
      });
      rewards.push(mean(data.map(({ credit }) => credit!.reward)));
      losses.push(metrics!['critic/critic_loss']!);
      drifts.push(logprobDrift.maxAbs);
      from = toDir;
    }
    rewards.push(mean((await rolledOut(from, 5)).map(({ credit }) => credit!.reward)));
    // The sampler reads a checkpoint with a critic beside it as the policy that was trained.
    expect(Math.max(...drifts)).toBeLessThan(1e-4);
    expect(losses.at(-1)!).toBeLessThan(0.75 * losses[0]!);
    expect(rewards.at(-1)!).toBeGreaterThan(rewards[0]! + 0.1);
  }));
