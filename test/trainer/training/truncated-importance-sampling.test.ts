/** Truncated importance sampling in an update whose tokens another policy sampled. Its formula has its own tests. */
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Datum, UpdateRequest } from '../../../trainer/update-request.ts';
import { tokenBatch } from '../../../trainer/model/token-batch.ts';
import { Updater } from '../../../trainer/update.ts';
import { inScratch, loadLearner, qwen3Dir, someTokens } from '../tiny-policy.ts';

const correction = (tisRatioType: 'token') => ({ tisRatioType, tokenTisRatioClipHigh: 2 });

const base: UpdateRequest['algorithm'] = {
  learningRate: 1e-3,
  epochs: 1,
  minibatches: 1,
  clipLow: 0.2,
  clipHigh: 0.28,
  maxGradNorm: 1,
  weightDecay: 0,
  betas: [0.9, 0.95],
  epsilon: 1e-8,
  microBatchTokens: 128,
};

/** Recorded log-probabilities that are `shift` below those of the policy in `dir`. */
async function dataOf(dir: string, shift: number): Promise<Datum[]> {
  const learner = await loadLearner(dir);
  const data = [40, 23, 61].map((length, i) => {
    const tokens = someTokens(length, i + 1);
    const mask = tokens.map((_, t) => (t > 5 && t % 3 !== 0 ? 1 : 0));
    const batch = tokenBatch([{ tokens, mask }]);
    const logprobs = tokens.map(() => 0);
    for (const [at, value] of learner.forward(batch, false).logprobs.entries())
      logprobs[batch.indexOf[at]!] = value - shift;
    return { tokens, mask, logprobs, advantage: i === 1 ? -0.5 : 1 };
  });
  learner.dispose();
  return data;
}

describe('an update with truncated importance sampling', () => {
  const update = (dir: string, name: string, data: readonly Datum[], algorithm: UpdateRequest['algorithm']) =>
    new Updater().run({ fromDir: qwen3Dir, toDir: path.join(dir, name), toVersion: 1, data, algorithm });

  it("weighs by the recorded log-probabilities, up to the cap, and clips against the update's start", () =>
    inScratch(async (dir) => {
      const onPolicy = await update(dir, 'on', await dataOf(qwen3Dir, 0), {
        ...base,
        offPolicyCorrection: correction('token'),
      });
      const plain = await update(dir, 'plain', await dataOf(qwen3Dir, 0), base);
      expect(onPolicy.loss).toBeCloseTo(plain.loss, 5);
      const half = await update(dir, 'half', await dataOf(qwen3Dir, Math.log(1.5)), {
        ...base,
        offPolicyCorrection: correction('token'),
      });
      expect(half.loss).toBeCloseTo(1.5 * plain.loss, 5);
      expect(half.clipFraction).toBe(0);
      expect(half.logprobDrift.meanAbs).toBeCloseTo(Math.log(1.5), 4);
      const far = await update(dir, 'far', await dataOf(qwen3Dir, 3), {
        ...base,
        offPolicyCorrection: correction('token'),
      });
      expect(far.loss).toBeCloseTo(2 * plain.loss, 5);
      const uncorrected = await update(dir, 'uncorrected', await dataOf(qwen3Dir, 3), base);
      expect(uncorrected.clipFraction).toBeGreaterThan(0.5);
    }));
});
