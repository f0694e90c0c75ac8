/**
 * Every loss trains the tiny policy: two updates on stored rollouts, and the settings that an update accepts or
 * refuses.
 */

import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { bundleModules } from '../../../modules/bundle.ts';
import { importBundle } from '../../../modules/import-bundle.ts';
import { LOSSES } from '../../../trainer/algorithms/losses/registry.ts';
import type { Datum } from '../../../trainer/update-request.ts';
import type { UpdateMetrics, UpdateSettings } from '../../../protocol/algorithm.ts';
import { loadWeights, weightsDigest } from '../../../trainer/model/weights.ts';
import { Updater } from '../../../trainer/update.ts';
import { NoReference } from '../../../trainer/training/prepare-update.ts';
import { inScratch, qwen3Dir } from '../tiny-policy.ts';
import { settings, storedRollouts } from './stored-rollouts.ts';

async function update(
  dir: string,
  data: readonly Datum[],
  more: Partial<UpdateSettings>,
  versions = 1,
  referenceDir?: string,
): Promise<UpdateMetrics[]> {
  const updater = new Updater();
  const made: UpdateMetrics[] = [];
  let fromDir = qwen3Dir;
  for (let toVersion = 1; toVersion <= versions; toVersion++) {
    const toDir = path.join(dir, `v${toVersion}-${made.length}`);
    const reference = referenceDir === undefined ? {} : { referenceDir };
    made.push(
      await updater.run({ fromDir, toDir, toVersion, data, algorithm: { ...settings, ...more }, ...reference }),
    );
    fromDir = toDir;
  }
  return made;
}

const finite = ({ metrics, loss, kl, entropy, gradNorm }: UpdateMetrics): boolean =>
  [loss, kl, entropy, gradNorm, ...Object.values(metrics ?? {})].every(Number.isFinite);

describe('two updates', () => {
  const data = storedRollouts();
  const before = loadWeights(qwen3Dir).then(weightsDigest);
  test.each(Object.keys(LOSSES))('by %s', async (loss) =>
    inScratch(async (dir) => {
      const range = loss === 'clip_cov' ? { clipCov: { ratio: 0.3, lowerBound: 0, upperBound: 5 } } : {};
      const made = await update(dir, await data, { loss, ...range }, 2);
      expect(made.every(finite)).toBe(true);
      expect(new Set([await before, ...made.map(({ sha256 }) => sha256)]).size).toBe(3);
    }),
  );
});

describe('what an update may be given', () => {
  const differs = (a: UpdateMetrics[], b: UpdateMetrics[]) => expect(a.at(-1)!.sha256).not.toBe(b.at(-1)!.sha256);
  const same = (a: UpdateMetrics[], b: UpdateMetrics[]) => expect(a.at(-1)!.sha256).toBe(b.at(-1)!.sha256);

  test('off-policy correction: the old log-probabilities are recomputed, weights and masks have an effect', () =>
    inScratch(async (dir) => {
      const data = await storedRollouts(0.5);
      const plain = await update(path.join(dir, 'a'), data, {});
      const weighted = await update(path.join(dir, 'b'), data, {
        offPolicyCorrection: { tisRatioType: 'token', tokenTisRatioClipHigh: 1.2 },
      });
      differs(plain, weighted);
      const metrics = weighted[0]!.metrics!;
      expect(metrics['policy/is_ratio_std']).toBeGreaterThan(0.1);
      expect(metrics['policy/tis_token_clip_high_ratio']).toBeGreaterThan(0);
      // In the first minibatch, the policy is still the old one.
      expect(metrics['policy/ratio_min']).toBeLessThanOrEqual(1);
      expect(weighted[0]!.logprobDrift.maxAbs).toBeGreaterThan(0.3);
      const all = await update(path.join(dir, 'c'), data, {
        offPolicyCorrection: { sequenceMaskMetric: 'product', productMaskLow: 1e6, productMaskHigh: 1e7 },
      });
      expect(all[0]!.metrics!['policy/product_sequence_mask_masked_ratio']).toBe(1);
      expect(all[0]!.gradNorm).toBe(0);
    }));

  test('KL in the loss pulls the policy to the reference, and needs one', () =>
    inScratch(async (dir) => {
      const data = await storedRollouts(0);
      const kl = { in: 'loss', estimator: 'k3', coefficient: 1 } as const;
      const more = { epochs: 3, minibatches: 1 };
      const free = await update(path.join(dir, 'a'), data, more);
      const held = await update(path.join(dir, 'b'), data, { ...more, kl: { ...kl, coefficient: 100 } }, 1, qwen3Dir);
      const measured = await update(path.join(dir, 'c'), data, { ...more, kl: { ...kl, coefficient: 0 } }, 1, qwen3Dir);
      same(free, measured);
      expect(held[0]!.kl).toBeLessThan(free[0]!.kl);
      expect(measured[0]!.metrics!['policy/policy_kl']).toBeGreaterThan(held[0]!.metrics!['policy/policy_kl']!);
      await expect(update(path.join(dir, 'd'), data, { kl })).rejects.toBeInstanceOf(NoReference);
    }));

  test('KL in the reward changes the advantages, also with another policy as reference', () =>
    inScratch(async (dir) => {
      const data = await storedRollouts(0);
      const [other] = await update(path.join(dir, 'other'), data, {});
      const reference = path.join(dir, 'other', 'v1-0');
      const kl = { in: 'reward', estimator: 'k1', coefficient: 10 } as const;
      const plain = await update(path.join(dir, 'a'), data, {});
      const penalised = await update(path.join(dir, 'b'), data, { kl }, 1, reference);
      expect(other!.sha256).toBe(plain[0]!.sha256);
      differs(plain, penalised);
      expect(penalised[0]!.metrics!['loss/avg_kl_max']).toBeGreaterThan(0);
    }));

  test('without a bound on the gradient, the update equals one whose bound is never reached', () =>
    inScratch(async (dir) => {
      const data = await storedRollouts();
      const [free, wide, narrow] = [
        await update(path.join(dir, 'a'), data, { maxGradNorm: null }),
        await update(path.join(dir, 'b'), data, { maxGradNorm: 1e9 }),
        await update(path.join(dir, 'c'), data, { maxGradNorm: 1e-3 }),
      ];
      same(free, wide);
      differs(free, narrow);
    }));

  test('an entropy bonus raises entropy', () =>
    inScratch(async (dir) => {
      const data = (await storedRollouts(0)).map(({ tokens, mask, logprobs }) => ({
        tokens,
        mask,
        logprobs,
        advantage: 0,
      }));
      const made = await update(dir, data, { entropyCoefficient: 1, minibatches: 1 }, 2);
      expect(made[1]!.entropy).toBeGreaterThan(made[0]!.entropy);
    }));

  test("a user's own loss from a module", () =>
    inScratch(async (dir) => {
      const module = path.join(mkdtempSync(path.join(tmpdir(), 'longhaul-losses-')), 'mine.mjs');
      writeFileSync(
        module,
        `import { defineLoss } from 'longhaul';
defineLoss('reinforce', { correctable: true, terms: ({ mask, logprobs, advantages }) => {
  const each = (f) => Float64Array.from(mask, (_, i) => f(i));
  return { values: each((i) => -advantages[i] * logprobs[i]), slopes: each((i) => -advantages[i]), metrics: { mine: 7 } };
} });\n`,
      );
      const bundle = await bundleModules([module]);
      await importBundle(bundle);
      const data = await storedRollouts();
      const [made] = await update(path.join(dir, 'a'), data, { loss: 'reinforce', modules: bundle.digest });
      expect(made!.metrics!['policy/mine']).toBe(7);
      await expect(update(path.join(dir, 'b'), data, { loss: 'nobodys' })).rejects.toThrow(
        /no loss nobodys; known: regular/,
      );
    }));
});
