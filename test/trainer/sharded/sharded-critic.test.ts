/**
 * Hunts critics in shards whose bits depend on which worker made which part, or that differ from one worker's result.
 * Not asserted: that shards save time.
 */

import { readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { readCheckpointRecord } from '../../../trainer/checkpoints/checkpoint.ts';
import { CheckpointTorn } from '../../../trainer/checkpoints/verified-checkpoint.ts';
import { criticPlace } from '../../../trainer/critic/critic-files.ts';
import { CriticTally } from '../../../trainer/critic/critic-metrics.ts';
import { ResidentCritic } from '../../../trainer/critic/resident-critic.ts';
import { forwardBackwardValues, planCritic, settingsWithCritic } from '../../../trainer/critic/train-critic.ts';
import { EmbeddedTrainer } from '../../../trainer/embedded/embedded-trainer.ts';
import type { PlanRequest } from '../../../trainer/update-request.ts';
import { ShardedUpdater } from '../../../trainer/sharded/sharded-updater.ts';
import { tf } from '../../../trainer/tensorflow.ts';
import { NoCredit } from '../../../trainer/training/advantages.ts';
import { metricsOf, Updater } from '../../../trainer/update.ts';
import { prepareUpdate } from '../../../trainer/training/prepare-update.ts';
import { inScratch, qwen3Dir } from '../tiny-policy.ts';
import { type Who, worker } from './parts.ts';
import { critic, algorithm, requestIn, kinds, bytesOf, whole, moments, apart } from './critic-in-shards.ts';

describe('an update with a critic in shards', () => {
  test.each(kinds)(
    '%s: the same bits with one worker, with two, and with a new one for each part, and two updates on end',
    (_, more) =>
      inScratch(async (dir) => {
        const one = worker();
        const two = [worker(), worker()] as const;
        const alternating: Who = (round, shard) => two[(round + (shard === 'step' ? 1 : shard)) % 2]!;
        const ends = await Promise.all(
          (
            [
              ['a', () => one],
              ['b', alternating],
              ['c', worker],
            ] as const
          ).map(async ([name, who]) => {
            let from = qwen3Dir;
            for (const toVersion of [1, 2]) {
              const to = path.join(dir, name, `v${toVersion}`);
              await whole(
                requestIn(path.join(dir, name), 2, {
                  ...more,
                  algorithm: { ...algorithm, epochs: 1 },
                  dir: path.join(dir, name, `parts-${toVersion}`),
                  fromDir: from,
                  toDir: to,
                  toVersion,
                }),
                who,
              );
              from = to;
            }
            return bytesOf(from);
          }),
        );
        expect(ends[1]).toEqual(ends[0]);
        expect(ends[2]).toEqual(ends[0]);
        const names = Object.keys(ends[0]!);
        expect(names).toContain(more.lora ? 'adapter_model.safetensors' : 'model.safetensors');
        expect(names).toContain(more.critic?.lora ? 'critic/adapter_model.safetensors' : 'critic/model.safetensors');
        expect(names).toContain('critic/optimizer.safetensors');
      }),
  );

  test.each([2, 3])('by %i shards measures and trains what one worker does, up to the order of sums', (shards) =>
    inScratch(async (dir) => {
      for (const [name, more] of kinds) {
        const request = requestIn(path.join(dir, name, String(shards)), shards, {
          ...more,
          algorithm: { ...algorithm, epochs: 1, minibatches: 1, critic: { ...critic, minibatches: 1 } },
        });
        const { rounds } = await worker().planUpdate(request);
        expect(rounds).toEqual([shards, shards]);
        await whole(request, worker);
        const sharded = metricsOf((await readCheckpointRecord(request.toDir))!);
        const plain = path.join(dir, `${name} plain`);
        const alone = await new Updater().run({ ...request, toDir: plain });
        expect(Object.keys(sharded.metrics!).sort()).toEqual(Object.keys(alone.metrics!).sort());
        for (const [metric, value] of Object.entries(sharded.metrics!))
          expect(value, metric).toBeCloseTo(alone.metrics![metric]!, 4);
        // After the first step, the first moment is a tenth of the gradient.
        expect(
          apart(await moments(path.join(request.toDir, 'critic')), await moments(path.join(plain, 'critic'))),
          name,
        ).toBeLessThan(1e-4);
        expect(apart(await moments(request.toDir), await moments(plain)), name).toBeLessThan(1e-4);
      }
    }),
  );

  test.each([2, 3, 8])("of %i shards the critic's gradients add up to that of the whole minibatch", (shards) =>
    inScratch(async (dir) => {
      const [trainer, critics, request] = [new EmbeddedTrainer(), new ResidentCritic(), requestIn(dir, shards)];
      const session = await trainer.loadState({ dir: qwen3Dir, optimizer: false });
      const { critic: loaded } = await critics.take(criticPlace(request)!, false);
      const { valued } = await prepareUpdate(request, { trainer, session, critic: loaded });
      const [plain, settings] = [new CriticTally(), settingsWithCritic(algorithm)!];
      const gradientOf = async (n: number): Promise<Float32Array> => {
        const [step] = planCritic(valued, settings, 'k', n);
        expect(step!.micro.length).toBeGreaterThanOrEqual(n);
        for (const micro of step!.micro) await forwardBackwardValues(loaded, micro, step!.sequences, settings, plain);
        return loaded.model.gradients.flatten(loaded.model.decoder).dataSync() as Float32Array;
      };
      const [together, finer] = [await gradientOf(1), await gradientOf(shards)];
      expect(apart(new Map([['', { data: together }]]), new Map([['', { data: finer }]]))).toBeLessThan(1e-4);
      await session.release();
    }),
  );

  test("plans the critic's rounds before the policy's, and keeps its state until both are written", () =>
    inScratch(async (dir) => {
      const request = requestIn(dir, 2);
      const one = worker();
      const planned = await one.planUpdate(request);
      // Two epochs of one minibatch for the critic, then two epochs of two minibatches for the policy.
      expect(planned.rounds).toEqual([2, 2, 2, 2, 2, 2]);
      const left = [
        ['plan', 'round-1'],
        ['plan', 'round-2'],
        ['plan', 'round-2', 'round-3'],
        ['plan', 'round-2', 'round-4'],
        ['plan', 'round-2', 'round-5'],
        ['plan'],
      ];
      for (const round of planned.rounds.keys()) {
        const at = { dir: request.dir, plan: planned.plan, round };
        for (const shard of [0, 1]) await one.forwardBackward({ ...at, shard });
        await one.optimStep(at);
        expect(readdirSync(request.dir).sort()).toEqual(left[round]);
      }
      expect((await readCheckpointRecord(request.toDir))?.optimizer?.steps).toBe(4);
      expect((await readCheckpointRecord(path.join(request.toDir, 'critic')))?.optimizer?.steps).toBe(2);
    }));

  test('a critic beside the policy continues with its moments, whether either update was sharded or not', () =>
    inScratch(async (dir) => {
      const [plain, first] = [path.join(dir, 'plain'), requestIn(path.join(dir, 'first'), 2)];
      await new Updater().run({ ...requestIn(dir, 1), toDir: plain });
      await whole(first, worker);
      const next = requestIn(path.join(dir, 'next'), 2, { fromDir: plain, toVersion: 2 });
      await whole(next, worker);
      expect((await readCheckpointRecord(path.join(next.toDir, 'critic')))?.optimizer?.steps).toBe(4);
      await new Updater().run({
        ...requestIn(dir, 1),
        fromDir: first.toDir,
        toDir: path.join(dir, 'after'),
        toVersion: 2,
      });
      expect((await readCheckpointRecord(path.join(dir, 'after', 'critic')))?.optimizer?.steps).toBe(4);
      // A lost critic is named, never created again.
      await rm(path.join(plain, 'critic'), { recursive: true });
      await expect(
        worker().planUpdate(requestIn(path.join(dir, 'x'), 2, { fromDir: plain, toVersion: 2 })),
      ).rejects.toBeInstanceOf(CheckpointTorn);
    }));

  test('leaves only the last policy and the last critic in memory, and without a critic only the policy', () =>
    inScratch(async (dir) => {
      const one = worker();
      const run = async (name: string, more: Partial<PlanRequest> = {}): Promise<number> => {
        await whole(requestIn(path.join(dir, name), 2, more), () => one);
        return tf.memory().numTensors;
      };
      const held = await run('a');
      expect(await run('b')).toBe(held);
      const { critic: _, ...grpo } = { ...algorithm, advantage: 'grpo' };
      expect(await run('c', { algorithm: grpo })).toBeLessThan(held);
      expect(await run('d')).toBe(held);
    }));

  test('gae without a critic, and a critic without returns, are refused before anything is written', () =>
    inScratch(async (dir) => {
      const { critic: _, ...without } = algorithm;
      await expect(worker().planUpdate(requestIn(dir, 2, { algorithm: without }))).rejects.toThrow(
        /gae needs the values of a critic/,
      );
      await expect(
        worker().planUpdate(requestIn(dir, 2, { algorithm: { ...algorithm, advantage: 'grpo' } })),
      ).rejects.toBeInstanceOf(NoCredit);
      expect(readdirSync(dir)).toEqual([]);
    }));

  test('a second plan of the same update is the first one; another critic gives another plan', () =>
    inScratch(async (dir) => {
      const request = requestIn(dir, 2);
      const [a, b] = [
        await worker().planUpdate(request),
        await new ShardedUpdater(new EmbeddedTrainer()).planUpdate(request),
      ];
      expect(b).toEqual(a);
      await rm(request.dir, { recursive: true });
      expect(await worker().planUpdate(request)).toEqual(a);
      await rm(request.dir, { recursive: true });
      expect((await worker().planUpdate({ ...request, critic: { base: qwen3Dir, seed: 6 } })).plan).not.toBe(a.plan);
    }));
});
