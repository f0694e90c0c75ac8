/** Truncated importance sampling: weights by hand, and an update whose tokens another policy sampled. */
import fc from 'fast-check';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { importanceWeights } from '../../trainer/algorithms/importance-weights.ts';
import type { Datum, OffPolicyCorrection, UpdateRequest } from '../../trainer/engine.ts';
import { tokenBatch } from '../../trainer/model/token-batch.ts';
import { Updater } from '../../trainer/update.ts';
import { inScratch, loadLearner, qwen3Dir, someTokens } from './tiny-policy.ts';

const correction = (tisRatioType: OffPolicyCorrection['tisRatioType']): OffPolicyCorrection => ({ tisRatioType, tokenTisRatioClipHigh: 2, sequenceTisRatioClipHigh: 5 });

describe('importance weights', () => {
  const old = [Math.log(0.5), Math.log(0.9), Math.log(0.3)];
  const recorded = [Math.log(0.25), Math.log(0.3), Math.log(0.6)];
  const rowOf = [0, 0, 1];

  it('are the truncated ratio of each token', () => {
    const weights = importanceWeights({ old, recorded, rowOf }, correction('token'));
    expect([...weights].map((w) => Number(w.toFixed(9)))).toEqual([2, 2, 0.5]);
  });

  it('are the truncated product over each sequence', () => {
    const weights = importanceWeights({ old, recorded, rowOf }, correction('sequence'));
    expect([...weights].map((w) => Number(w.toFixed(9)))).toEqual([5, 5, 0.5]);
  });

  it('are 1 on policy, above 0 and at most the cap anywhere', () => {
    const nats = fc.array(fc.tuple(fc.double({ min: -40, max: 0, noNaN: true }), fc.double({ min: -40, max: 0, noNaN: true }), fc.nat(3)), { maxLength: 20 });
    fc.assert(
      fc.property(nats, fc.constantFrom('token' as const, 'sequence' as const), (tokens, type) => {
        const [a, b, rows] = [tokens.map(([x]) => x), tokens.map(([, y]) => y), tokens.map(([, , row]) => row)];
        for (const w of importanceWeights({ old: a, recorded: b, rowOf: rows }, correction(type))) expect(w > 0 && w <= (type === 'token' ? 2 : 5)).toBe(true);
        expect([...importanceWeights({ old: a, recorded: a, rowOf: rows }, correction(type))].every((w) => w === 1)).toBe(true);
      }),
    );
  });
});

const base: UpdateRequest['algorithm'] = {
  learningRate: 1e-3, epochs: 1, minibatches: 1, clipLow: 0.2, clipHigh: 0.28, maxGradNorm: 1, weightDecay: 0,
  betas: [0.9, 0.95], epsilon: 1e-8, microBatchTokens: 128,
};

/** Recorded log-probabilities that are `shift` below those of the policy in `dir`. */
async function dataOf(dir: string, shift: number): Promise<Datum[]> {
  const learner = await loadLearner(dir);
  const data = [40, 23, 61].map((length, i) => {
    const tokens = someTokens(length, i + 1);
    const mask = tokens.map((_, t) => (t > 5 && t % 3 !== 0 ? 1 : 0));
    const batch = tokenBatch([{ tokens, mask }]);
    const logprobs = tokens.map(() => 0);
    for (const [at, value] of learner.statistics(batch, false).logprobs.entries()) logprobs[batch.indexOf[at]!] = value - shift;
    return { tokens, mask, logprobs, advantage: i === 1 ? -0.5 : 1 };
  });
  learner.dispose();
  return data;
}

describe('an update with truncated importance sampling', () => {
  const update = (dir: string, name: string, data: readonly Datum[], algorithm: UpdateRequest['algorithm']) =>
    new Updater().run({ fromDir: qwen3Dir, toDir: path.join(dir, name), toVersion: 1, data, algorithm });

  it('weighs by the recorded log-probabilities, up to the cap, and clips against the update\'s start', () =>
    inScratch(async (dir) => {
      const onPolicy = await update(dir, 'on', await dataOf(qwen3Dir, 0), { ...base, offPolicyCorrection: correction('token') });
      const plain = await update(dir, 'plain', await dataOf(qwen3Dir, 0), base);
      expect(onPolicy.loss).toBeCloseTo(plain.loss, 5);
      const half = await update(dir, 'half', await dataOf(qwen3Dir, Math.log(1.5)), { ...base, offPolicyCorrection: correction('token') });
      expect(half.loss).toBeCloseTo(1.5 * plain.loss, 5);
      expect(half.clipFraction).toBe(0);
      expect(half.logprobDrift.meanAbs).toBeCloseTo(Math.log(1.5), 4);
      const far = await update(dir, 'far', await dataOf(qwen3Dir, 3), { ...base, offPolicyCorrection: correction('token') });
      expect(far.loss).toBeCloseTo(2 * plain.loss, 5);
      const uncorrected = await update(dir, 'uncorrected', await dataOf(qwen3Dir, 3), base);
      expect(uncorrected.clipFraction).toBeGreaterThan(0.5);
    }));
});
