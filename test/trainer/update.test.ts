/**
 * Properties of updates that the workflow needs: a repeated update trains nothing, an interrupted one leaves no file, a
 * resumed one ends in the same bits.
 */

import { createHash } from 'node:crypto';
import { cp, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { TrainingDiverged } from '../../trainer/optimizer.ts';
import type { Datum, UpdateRequest } from '../../trainer/update-request.ts';
import { readSafetensors } from '../../trainer/model/safetensors.ts';
import { tokenBatch } from '../../trainer/model/token-batch.ts';
import { loadWeights, weightsDigest } from '../../trainer/model/weights.ts';
import { Updater } from '../../trainer/update.ts';
import { NothingToTrain } from '../../trainer/training/prepare-update.ts';
import { asSampled, inScratch, loadLearner, qwen3Dir } from './tiny-policy.ts';

const algorithm: UpdateRequest['algorithm'] = {
  learningRate: 1e-3,
  epochs: 2,
  minibatches: 2,
  clipLow: 0.2,
  clipHigh: 0.28,
  maxGradNorm: 1,
  weightDecay: 0.01,
  betas: [0.9, 0.95],
  epsilon: 1e-8,
  microBatchTokens: 128,
};

async function dataOf(dir: string): Promise<Datum[]> {
  const sampled = await asSampled(dir, [40, 23, 61, 12, 33, 50]);
  return sampled.map((one, i) => ({ ...one, advantage: i % 2 === 0 ? 1 : -0.7 }));
}

const request = (fromDir: string, toDir: string, toVersion: number, data: readonly Datum[]): UpdateRequest => ({
  fromDir,
  toDir,
  toVersion,
  data,
  algorithm,
});

/** SHA-256 of weights and moments on disk, so that a difference is not printed as a diff of millions of bytes. */
const bytesOf = (dir: string): Promise<string[]> =>
  Promise.all(
    ['model.safetensors', 'optimizer.safetensors'].map(async (name) =>
      createHash('sha256')
        .update(await readFile(path.join(dir, name)))
        .digest('hex'),
    ),
  );

describe('runUpdate', () => {
  test('gradient checkpointing ends in the same bits; packed sequences end near padded ones, each time in the same bits', () =>
    inScratch(async (dir) => {
      const data = await dataOf(qwen3Dir);
      const run = async (
        name: string,
        more: Partial<UpdateRequest['algorithm']>,
      ): Promise<{ sha256: string; loss: number; gradNorm: number }> => {
        const plain = request(qwen3Dir, path.join(dir, name), 1, data);
        return new Updater().run({ ...plain, algorithm: { ...algorithm, ...more } });
      };
      const plain = await run('plain', {});
      expect((await run('again', { gradientCheckpointing: true })).sha256).toBe(plain.sha256);
      const packed = await run('packed', { packing: true });
      expect((await run('packed-again', { packing: true, gradientCheckpointing: true })).sha256).toBe(packed.sha256);
      expect(packed.sha256).not.toBe(plain.sha256);
      expect(packed.loss).toBeCloseTo(plain.loss, 4);
      expect(packed.gradNorm / plain.gradNorm).toBeCloseTo(1, 3);
    }));

  test('writes a complete policy and the metrics of the interface', () =>
    inScratch(async (dir) => {
      const to = path.join(dir, 'v1');
      const fractions: number[] = [];
      const data = await dataOf(qwen3Dir);
      const metrics = await new Updater().run(request(qwen3Dir, to, 1, data), (f) => fractions.push(f));
      expect((await readdir(to)).sort()).toEqual([
        'config.json',
        'longhaul.json',
        'model.safetensors',
        'optimizer.safetensors',
        'tokenizer.json',
        'tokenizer_config.json',
      ]);
      const { metrics: recorded, ...record } = JSON.parse(await readFile(path.join(to, 'longhaul.json'), 'utf8'));
      expect(record).toEqual({
        step: 1,
        version: 1,
        sha256: weightsDigest(await loadWeights(to)),
        optimizer: { steps: 4, sha256: weightsDigest(await readSafetensors(path.join(to, 'optimizer.safetensors'))) },
      });
      expect({ ...recorded, sha256: record.sha256 }).toEqual(metrics);
      expect(metrics.trainedTokens).toBe(data.flatMap((d) => d.mask).reduce((a, b) => a + b, 0));
      expect(metrics.logprobDrift.maxAbs).toBeLessThan(1e-5);
      for (const value of [metrics.loss, metrics.kl, metrics.entropy, metrics.gradNorm, metrics.clipFraction])
        expect(value).toBeTypeOf('number');
      expect(metrics.entropy).toBeGreaterThan(0);
      expect(metrics.kl).toBeGreaterThan(0);
      expect(fractions.at(-1)).toBe(1);
      expect([...fractions].sort((a, b) => a - b)).toEqual(fractions);
      expect(weightsDigest(await loadWeights(qwen3Dir))).not.toBe(record.sha256);
    }));

  test('raises the probability of tokens with a positive advantage and lowers that of tokens with a negative one', () =>
    inScratch(async (dir) => {
      const data = await dataOf(qwen3Dir);
      await new Updater().run(request(qwen3Dir, path.join(dir, 'v1'), 1, data));
      const learner = await loadLearner(path.join(dir, 'v1'));
      for (const datum of data) {
        const { logprobs } = learner.forward(tokenBatch([datum]), false);
        const before = datum.logprobs.reduce((sum, x) => sum + x, 0);
        const after = logprobs.reduce((sum, x) => sum + x, 0);
        expect(Math.sign(after - before)).toBe(Math.sign(datum.advantage!));
      }
      learner.dispose();
    }));

  test('a repeated update trains nothing and returns the recorded metrics', () =>
    inScratch(async (dir) => {
      const to = path.join(dir, 'v1');
      const first = await new Updater().run(request(qwen3Dir, to, 1, await dataOf(qwen3Dir)));
      const before = await bytesOf(to);
      const other = await new Updater().run(request('/nowhere', to, 1, []));
      expect(other).toEqual(first);
      expect(await bytesOf(to)).toEqual(before);
    }));

  test('four updates in one process end in the same bits as four in four processes', () =>
    inScratch(async (dir) => {
      const run = async (name: string, updater: () => Updater): Promise<string[]> => {
        let from = qwen3Dir;
        for (let version = 1; version <= 4; version++) {
          const to = path.join(dir, `${name}-${version}`);
          await updater().run(request(from, to, version, await dataOf(from)));
          from = to;
        }
        return bytesOf(from);
      };
      const one = new Updater();
      const live = await run('live', () => one);
      expect(await run('resumed', () => new Updater())).toEqual(live);
    }));

  test('the policy in memory is not used for a directory that has changed under its name', () =>
    inScratch(async (dir) => {
      const data = await dataOf(qwen3Dir);
      const updater = new Updater();
      const [v1, other] = [path.join(dir, 'v1'), path.join(dir, 'other')];
      await updater.run(request(qwen3Dir, v1, 1, data));
      await new Updater().run(request(qwen3Dir, other, 7, data.slice(0, 3)));
      await rm(v1, { recursive: true });
      await cp(other, v1, { recursive: true });
      await updater.run(request(v1, path.join(dir, 'v2'), 2, data));
      await new Updater().run(request(other, path.join(dir, 'w2'), 2, data));
      expect(await bytesOf(path.join(dir, 'v2'))).toEqual(await bytesOf(path.join(dir, 'w2')));
    }));

  test('files of a killed attempt are neither used as a checkpoint nor kept', () =>
    inScratch(async (dir) => {
      const to = path.join(dir, 'v1');
      await mkdir(`${to}.partial-1-dead`);
      await writeFile(path.join(`${to}.partial-1-dead`, 'model.safetensors'), 'half');
      await new Updater().run(request(qwen3Dir, to, 1, await dataOf(qwen3Dir)));
      expect(await readdir(dir)).toEqual(['v1']);
    }));

  test('two attempts at once: one is written, both report it', () =>
    inScratch(async (dir) => {
      const to = path.join(dir, 'v1');
      const data = await dataOf(qwen3Dir);
      const both = await Promise.all([1, 2].map(() => new Updater().run(request(qwen3Dir, to, 1, data))));
      expect(both[0]).toEqual(both[1]);
      expect(both[0]!.sha256).toBe(weightsDigest(await loadWeights(to)));
      expect(await readdir(dir)).toEqual(['v1']);
    }));

  test('a later attempt changes no byte of the checkpoint that an earlier one wrote, and reports that one', () =>
    inScratch(async (dir) => {
      const to = path.join(dir, 'v1');
      const asked = request(qwen3Dir, to, 1, await dataOf(qwen3Dir));
      const other = { ...asked, algorithm: { ...algorithm, epochs: 60 } };
      let progress = 0;
      const late = new Updater().run(other, (fraction) => (progress = fraction));
      const first = await new Updater().run(asked);
      expect(progress).toBeLessThan(1);
      const written = await bytesOf(to);
      expect(await late).toEqual(first);
      expect(await bytesOf(to)).toEqual(written);
      expect(await readdir(dir)).toEqual(['v1']);
    }));

  test('data without a token to train on is refused; a gradient that is not a number leaves no file', () =>
    inScratch(async (dir) => {
      const data = await dataOf(qwen3Dir);
      const silent = data.map((datum) => ({ ...datum, mask: datum.mask.map(() => 0) }));
      const updater = new Updater();
      await expect(updater.run(request(qwen3Dir, path.join(dir, 'a'), 1, silent))).rejects.toBeInstanceOf(
        NothingToTrain,
      );
      const broken = data.map((datum) => ({ ...datum, advantage: NaN }));
      await expect(updater.run(request(qwen3Dir, path.join(dir, 'a'), 1, broken))).rejects.toBeInstanceOf(
        TrainingDiverged,
      );
      expect(await readdir(dir)).toEqual([]);
      await updater.run(request(qwen3Dir, path.join(dir, 'a'), 1, data));
      await new Updater().run(request(qwen3Dir, path.join(dir, 'b'), 1, data));
      expect(await bytesOf(path.join(dir, 'a'))).toEqual(await bytesOf(path.join(dir, 'b')));
    }));
});
