/**
 * Hunts updates whose bits depend on which worker made which part: on the number of workers, on a worker that died
 * half-way, on torn shards. Each `ShardedUpdater` is a worker with its own memory. Not asserted: that shards save time.
 */

import { existsSync, readdirSync } from 'node:fs';
import { cp, mkdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ShardSession, Trainer } from '../../../trainer/backend.ts';
import { EmbeddedTrainer } from '../../../trainer/embedded/embedded-trainer.ts';
import type { Datum, PlanRequest } from '../../../trainer/update-request.ts';
import type { UpdateSettings } from '../../../protocol/algorithm.ts';
import { readCheckpointRecord } from '../../../trainer/checkpoints/checkpoint.ts';
import { PlanLost } from '../../../trainer/sharded/located-plan.ts';
import { ShardedUpdater } from '../../../trainer/sharded/sharded-updater.ts';
import { planUpdate } from '../../../trainer/training/prepare-update.ts';
import { forwardBackward } from '../../../trainer/training/train-policy.ts';
import { metricsOf, Updater } from '../../../trainer/update.ts';
import { prepareUpdate, NothingToTrain } from '../../../trainer/training/prepare-update.ts';
import { Tally } from '../../../trainer/training/tally.ts';
import { asSampled, inScratch, qwen3Dir } from '../tiny-policy.ts';
import { carryOut, type Who, worker } from './parts.ts';

const algorithm: UpdateSettings = {
  learningRate: 1e-3,
  epochs: 2,
  minibatches: 2,
  clipLow: 0.2,
  clipHigh: 0.28,
  maxGradNorm: 1,
  weightDecay: 0.01,
  betas: [0.9, 0.95],
  epsilon: 1e-8,
  microBatchTokens: 96,
};

/** Rollouts of two groups. */
async function dataOf(dir: string): Promise<Datum[]> {
  const sampled = await asSampled(dir, [40, 23, 61, 12, 33, 50, 18, 44]);
  return sampled.map((one, i) => ({ ...one, credit: { reward: i % 3, group: `g${i % 2}`, rollout: `r${i}` } }));
}

const data = await dataOf(qwen3Dir);

const requestIn = (dir: string, shards: number, more: Partial<PlanRequest> = {}): PlanRequest => ({
  dir: path.join(dir, 'update'),
  shards,
  fromDir: qwen3Dir,
  toDir: path.join(dir, 'v1'),
  toVersion: 1,
  data,
  algorithm,
  ...more,
});

/** The embedded trainer, with some calls of its sessions replaced. */
function withSessions(other: (session: ShardSession) => Partial<ShardSession>): Trainer<ShardSession> {
  const trainer = new EmbeddedTrainer();
  return {
    loadState: async (state) => {
      const session = await trainer.loadState(state);
      const calls = other(session);
      return {
        forward: (...given) => session.forward(...given),
        forwardBackward: (pass) => session.forwardBackward(pass),
        optimStep: (settings) => session.optimStep(settings),
        saveState: (to) => session.saveState(to),
        publish: (to) => session.publish(to),
        takeGradient: () => session.takeGradient(),
        setGradient: (sum) => session.setGradient(sum),
        release: () => session.release(),
        ...calls,
      };
    },
    score: (...given) => trainer.score(...given),
  };
}

const bytesOf = (dir: string): Promise<Buffer[]> =>
  Promise.all(
    ['model.safetensors', 'optimizer.safetensors', 'longhaul.json'].map((name) => readFile(path.join(dir, name))),
  );

async function whole(request: PlanRequest, who: Who): Promise<Buffer[]> {
  await carryOut(request, await who(0, 'step').planUpdate(request), who);
  return bytesOf(request.toDir);
}

describe('an update in shards', () => {
  test.each([2, 3])(
    'by %i shards has the same bits with one worker, with two, and with a new one for each part',
    (shards) =>
      inScratch(async (dir) => {
        const one = worker();
        const alone = await whole(requestIn(path.join(dir, 'a'), shards), () => one);
        const two = [worker(), worker()] as const;
        expect(
          await whole(
            requestIn(path.join(dir, 'b'), shards),
            (round, shard) => two[(round + (shard === 'step' ? 1 : shard)) % 2]!,
          ),
        ).toEqual(alone);
        expect(await whole(requestIn(path.join(dir, 'c'), shards), worker)).toEqual(alone);
        const { rounds } = await worker().planUpdate(requestIn(path.join(dir, 'd'), shards));
        expect(rounds).toEqual([shards, shards, shards, shards]);
      }),
  );

  test('reports the metrics of an update without shards', () =>
    inScratch(async (dir) => {
      const one = worker();
      const request = requestIn(dir, 3);
      await whole(request, () => one);
      const sharded = metricsOf((await readCheckpointRecord(request.toDir))!);
      const plain = await new Updater().run({ ...requestIn(dir, 1), toDir: path.join(dir, 'plain') });
      expect(sharded.trainedTokens).toBe(plain.trainedTokens);
      expect(sharded.logprobDrift.maxAbs).toBeLessThan(1e-5);
      for (const name of ['loss', 'kl', 'entropy', 'gradNorm', 'clipFraction'] as const)
        expect(sharded[name]).toBeCloseTo(plain[name], 4);
      expect(Object.keys(sharded.metrics!).sort()).toEqual(Object.keys(plain.metrics!).sort());
      expect(sharded.metrics!['policy/num_sequences']).toBe(data.length);
    }));

  test.each([2, 3, 8])('of %i shards the gradients add up to that of the whole minibatch', (shards) =>
    inScratch(async (dir) => {
      const trainer = new EmbeddedTrainer();
      const request = requestIn(dir, shards);
      const session = await trainer.loadState({ dir: qwen3Dir, optimizer: false });
      const gradientOf = async (n: number): Promise<Float32Array> => {
        const { epochs } = await prepareUpdate(request, { trainer, session }, n);
        const [minibatch] = epochs[0]!;
        for (const micro of minibatch!.micro)
          await forwardBackward(
            session,
            micro,
            { algorithm, toVersion: 1, pass: 0, epoch: 0, minibatch: minibatch! },
            new Tally(),
          );
        return session.takeGradient();
      };
      const together = await gradientOf(1);
      const finer = await gradientOf(shards);
      const largest = together.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
      const off = together.reduce((most, x, i) => Math.max(most, Math.abs(x - finer[i]!)), 0);
      expect(largest).toBeGreaterThan(0);
      expect(off / largest).toBeLessThan(1e-4);
      await session.release();
    }),
  );

  test('continues on another worker if one died half-way, after any part, and ends in the same bits', () =>
    inScratch(async (dir) => {
      const reference = await whole(requestIn(path.join(dir, 'reference'), 2), worker);
      const request = requestIn(path.join(dir, 'disturbed'), 2);
      const dying = worker();
      const planned = await dying.planUpdate(request);
      const at = { dir: request.dir, plan: planned.plan };
      await dying.forwardBackward({ ...at, round: 0, shard: 1 });
      await dying.forwardBackward({ ...at, round: 0, shard: 0 });
      await dying.optimStep({ ...at, round: 0 });
      await dying.forwardBackward({ ...at, round: 1, shard: 0 });
      // A second worker repeats everything from the plan on.
      const second = worker();
      expect(await second.planUpdate(request)).toEqual(planned);
      await carryOut(request, planned, () => second);
      expect(await bytesOf(request.toDir)).toEqual(reference);
      // The first worker was only slow: its later work changes nothing, and leaves no file.
      await dying.forwardBackward({ ...at, round: 1, shard: 1 });
      await dying.optimStep({ ...at, round: 1 });
      expect(await bytesOf(request.toDir)).toEqual(reference);
      expect(readdirSync(request.dir)).toEqual(['plan']);
    }));

  test('files left by a step that was killed after writing its state are removed when the step is repeated', () =>
    inScratch(async (dir) => {
      const [request, one, aside] = [requestIn(dir, 2), worker(), path.join(dir, 'aside')];
      const { plan } = await one.planUpdate(request);
      const at = { dir: request.dir, plan };
      for (const shard of [0, 1]) await one.forwardBackward({ ...at, round: 0, shard });
      await one.optimStep({ ...at, round: 0 });
      for (const shard of [0, 1]) await one.forwardBackward({ ...at, round: 1, shard });
      await cp(request.dir, aside, { recursive: true });
      await one.optimStep({ ...at, round: 1 });
      await cp(aside, request.dir, { recursive: true, force: false });
      expect(readdirSync(request.dir).sort()).toEqual([
        'plan',
        'round-1',
        'round-1-shard-0',
        'round-1-shard-1',
        'round-2',
      ]);
      await worker().optimStep({ ...at, round: 1 });
      expect(readdirSync(request.dir).sort()).toEqual(['plan', 'round-2']);
    }));

  test('a late step, whose update was removed in the meantime, creates no file again', () =>
    inScratch(async (dir) => {
      const request = requestIn(dir, 2);
      const late = new ShardedUpdater(
        withSessions((session) => ({
          optimStep: async (settings) => {
            await rm(request.dir, { recursive: true });
            return session.optimStep(settings);
          },
        })),
      );
      const { plan } = await late.planUpdate(request);
      await expect(late.optimStep({ dir: request.dir, plan, round: 0 })).rejects.toBeInstanceOf(PlanLost);
      expect(existsSync(request.dir)).toBe(false);
    }));

  test('a late plan, whose update was removed in the meantime, creates no file again', () =>
    inScratch(async (dir) => {
      const request = requestIn(dir, 2, {
        algorithm: { ...algorithm, offPolicyCorrection: { tisRatioType: 'token' } },
      });
      const late = new ShardedUpdater(
        withSessions((session) => ({
          forward: async (...given) => {
            await rm(request.dir, { recursive: true, force: true });
            return session.forward(...given);
          },
        })),
      );
      await expect(late.planUpdate(request)).rejects.toThrow('ENOENT');
      expect(existsSync(request.dir)).toBe(false);
    }));

  test('of two concurrent plans the first one is kept, though their passes differ in a bit', () =>
    inScratch(async (dir) => {
      const request = requestIn(dir, 2, {
        algorithm: { ...algorithm, offPolicyCorrection: { tisRatioType: 'token', tokenTisRatioClipHigh: 2 } },
      });
      const known = await worker().planUpdate(request);
      const first = await readFile(path.join(request.dir, 'plan'));
      await rm(request.dir, { recursive: true });
      const slow = new ShardedUpdater(
        withSessions((session) => ({
          forward: async (...given) => {
            // In the meantime, the other plan is finished.
            await mkdir(request.dir, { recursive: true });
            await writeFile(path.join(request.dir, 'plan'), first);
            const scores = await session.forward(...given);
            for (const one of scores.values()) one[0]! += 1e-7;
            return scores;
          },
        })),
      );
      expect(await slow.planUpdate(request)).toEqual(known);
      expect(await readFile(path.join(request.dir, 'plan'))).toEqual(first);
    }));

  test('two workers whose plans are ready at the same moment both receive the plan that is kept', () =>
    inScratch(async (dir) => {
      const request = requestIn(dir, 2, {
        algorithm: { ...algorithm, offPolicyCorrection: { tisRatioType: 'token', tokenTisRatioClipHigh: 2 } },
      });
      const [both, waiting] = [Promise.withResolvers<void>(), { count: 2 }];
      const planner = (off: number) =>
        new ShardedUpdater(
          withSessions((session) => ({
            forward: async (...given) => {
              const scores = await session.forward(...given);
              for (const one of scores.values()) one[0]! += off;
              return scores;
            },
            release: async () => {
              await session.release();
              if (--waiting.count === 0) both.resolve();
              await both.promise;
            },
          })),
        );
      const [a, b] = await Promise.all([planner(0).planUpdate(request), planner(1e-7).planUpdate(request)]);
      expect(b).toEqual(a);
      expect(readdirSync(request.dir)).toEqual(['plan']);
      await worker().forwardBackward({ dir: request.dir, plan: a.plan, round: 0, shard: 0 });
    }));

  test('a step makes torn, missing and foreign shards again', () =>
    inScratch(async (dir) => {
      const reference = await whole(requestIn(path.join(dir, 'reference'), 3), worker);
      const request = requestIn(path.join(dir, 'torn'), 3);
      const one = worker();
      const planned = await one.planUpdate(request);
      const at = { dir: request.dir, plan: planned.plan, round: 0 };
      for (const shard of [0, 1, 2]) await one.forwardBackward({ ...at, shard });
      const file = (shard: number) => path.join(request.dir, `round-0-shard-${shard}`);
      const bytes = await readFile(file(1));
      await truncate(file(0), 1000);
      bytes[bytes.length - 9]! ^= 1;
      await writeFile(file(1), bytes);
      await writeFile(file(2), await readFile(file(1)));
      await worker().optimStep(at);
      await carryOut(request, planned, () => one, 1);
      expect(await bytesOf(request.toDir)).toEqual(reference);
    }));

  test('an existing shard is not made again, and a torn one is', () =>
    inScratch(async (dir) => {
      const request = requestIn(dir, 2);
      const { plan } = await worker().planUpdate(request);
      const trainer = new EmbeddedTrainer();
      const one = new ShardedUpdater(trainer);
      const asked = { dir: request.dir, plan, round: 0, shard: 0 };
      const before = trainer.loads;
      await one.forwardBackward(asked);
      const file = path.join(request.dir, 'round-0-shard-0');
      const made = await readFile(file);
      expect(trainer.loads).toBe(before + 1);
      const written = await stat(file, { bigint: true });
      await new ShardedUpdater(trainer).forwardBackward(asked);
      expect(await stat(file, { bigint: true })).toMatchObject({ ino: written.ino, mtimeNs: written.mtimeNs });
      await truncate(file, 100);
      await one.forwardBackward(asked);
      expect(await readFile(file)).toEqual(made);
      // A worker reads a version once, for all parts.
      await one.forwardBackward({ ...asked, shard: 1 });
      expect(trainer.loads).toBe(before + 1);
    }));

  test('trains an adapter, with KL and a correction, as a single worker would', () =>
    inScratch(async (dir) => {
      const more: Partial<PlanRequest> = {
        lora: { rank: 2, alpha: 4, targetModules: ['q_proj', 'down_proj'], seed: 3 },
        referenceDir: qwen3Dir,
        algorithm: {
          ...algorithm,
          kl: { in: 'loss', estimator: 'k3', coefficient: 0.05 },
          offPolicyCorrection: { tisRatioType: 'token', tokenTisRatioClipHigh: 2 },
        },
      };
      const one = worker();
      const adapterOf = (to: string) => readFile(path.join(to, 'adapter_model.safetensors'));
      const [a, b] = [requestIn(path.join(dir, 'a'), 2, more), requestIn(path.join(dir, 'b'), 2, more)];
      await carryOut(a, await one.planUpdate(a), () => one);
      await carryOut(b, await worker().planUpdate(b), worker);
      expect(await adapterOf(b.toDir)).toEqual(await adapterOf(a.toDir));
      const { metrics } = metricsOf((await readCheckpointRecord(a.toDir))!);
      expect(metrics).toHaveProperty('policy/kl_loss');
    }));

  test('without a token to train on is refused, and so is a part of a missing plan', () =>
    inScratch(async (dir) => {
      const nothing = data.map((datum) => ({ ...datum, mask: datum.mask.map(() => 0) }));
      await expect(worker().planUpdate(requestIn(dir, 2, { data: nothing }))).rejects.toThrow(NothingToTrain);
      await expect(worker().forwardBackward({ dir, plan: 'none', round: 0, shard: 0 })).rejects.toThrow(PlanLost);
    }));
});

describe('a minibatch for shards', () => {
  test('is cut finer until every shard has a pass, and no finer than sequences allow', () => {
    const items = data.map((datum) => ({
      sample: { datum, count: 3, recorded: new Float64Array(3), old: new Float64Array(3), reference: undefined },
      advantages: new Float64Array(3),
    }));
    const micro = (shards: number) =>
      planUpdate(items, { ...algorithm, epochs: 1, minibatches: 1, microBatchTokens: 10_000 }, 'k', shards)[0]![0]!
        .micro.length;
    expect(micro(1)).toBe(1);
    expect(micro(4)).toBeGreaterThanOrEqual(4);
    expect(micro(20)).toBe(8);
  });
});
