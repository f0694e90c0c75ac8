/**
 * Hunts critics in shards that are lost between the critic's rounds and the policy's: by a killed worker, torn or
 * missing files, or a late step.
 */

import { existsSync, readdirSync, rmSync } from 'node:fs';
import { cp, rm, truncate } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointTorn } from '../../../trainer/checkpoints/verified-checkpoint.ts';
import { ResidentCritic } from '../../../trainer/critic/resident-critic.ts';
import { EmbeddedTrainer } from '../../../trainer/embedded/embedded-trainer.ts';
import { PlanLost } from '../../../trainer/sharded/located-plan.ts';
import { ShardedUpdater } from '../../../trainer/sharded/sharded-updater.ts';
import { tf } from '../../../trainer/tensorflow.ts';
import { inScratch, qwen3Dir } from '../tiny-policy.ts';
import { carryOut, worker } from './parts.ts';
import { critic, algorithm, requestIn, lora, bytesOf, whole } from './critic-in-shards.ts';

describe('an update with a critic in shards', () => {
  test('continues on another worker if one dies before or after any part, with torn shards, and ends in the same bits', () =>
    inScratch(async (dir) => {
      // Four rounds of the critic, then two of the policy.
      const more = {
        critic: { base: qwen3Dir, seed: 5, lora },
        algorithm: { ...algorithm, minibatches: 1, critic: { ...critic, minibatches: 2 } },
      };
      const reference = await whole(requestIn(path.join(dir, 'reference'), 2, more), worker);
      for (let died = 0; died < 6; died++) {
        const request = requestIn(path.join(dir, `died-in-${died}`), 2, more);
        const dying = worker();
        const planned = await dying.planUpdate(request);
        const at = (round: number) => ({ dir: request.dir, plan: planned.plan, round });
        for (let round = 0; round < died; round++) {
          for (const shard of [1, 0]) await dying.forwardBackward({ ...at(round), shard });
          await dying.optimStep(at(round));
        }
        await dying.forwardBackward({ ...at(died), shard: 1 });
        await dying.forwardBackward({ ...at(died), shard: 0 });
        await truncate(path.join(request.dir, `round-${died}-shard-0`), 700);
        // Another worker repeats everything from the plan on.
        const second = worker();
        expect(await second.planUpdate(request)).toEqual(planned);
        await carryOut(request, planned, () => second);
        expect(await bytesOf(request.toDir)).toEqual(reference);
        // The first worker was only slow: its later work changes nothing, and leaves no file.
        for (const round of [0, died, 5]) {
          await dying.forwardBackward({ ...at(round), shard: 1 });
          await dying.optimStep(at(round));
        }
        expect(await bytesOf(request.toDir)).toEqual(reference);
        expect(readdirSync(request.dir)).toEqual(['plan']);
      }
    }));

  test.each<[string, number, string, (state: string) => Promise<void>]>([
    [
      "the critic's, with its weights cut short",
      2,
      'round-2',
      (state) => truncate(path.join(state, 'adapter_model.safetensors'), 900),
    ],
    [
      "the critic's last, without its record, while the policy's go on",
      5,
      'round-4',
      (state) => rm(path.join(state, 'longhaul.json')),
    ],
    [
      "the policy's, with its record cut short",
      5,
      'round-5',
      (state) => truncate(path.join(state, 'longhaul.json'), 20),
    ],
    [
      "the policy's, without its record: its moments would begin at zero",
      5,
      'round-5',
      (state) => rm(path.join(state, 'longhaul.json')),
    ],
    ["the policy's, gone", 5, 'round-5', (state) => rm(state, { recursive: true })],
  ])(
    'a state between two rounds that is lost (%s) is made again with those before it, and the update ends in the same bits',
    (_, round, state, lose) =>
      inScratch(async (dir) => {
        // Four rounds of the critic, then two of the policy.
        const more = {
          critic: { base: qwen3Dir, seed: 5, lora },
          algorithm: { ...algorithm, minibatches: 1, critic: { ...critic, minibatches: 2 } },
        };
        const [reference, request] = [
          await whole(requestIn(path.join(dir, 'reference'), 2, more), worker),
          requestIn(path.join(dir, 'lost'), 2, more),
        ];
        const one = worker();
        const planned = await one.planUpdate(request);
        await carryOut(request, { ...planned, rounds: planned.rounds.slice(0, round) }, () => one);
        await lose(path.join(request.dir, state));
        const at = { dir: request.dir, plan: planned.plan, round };
        await expect(one.optimStep(at)).rejects.toBeInstanceOf(PlanLost);
        expect(await one.planUpdate(request)).toEqual(planned);
        await carryOut(request, planned, () => one);
        expect(await bytesOf(request.toDir)).toEqual(reference);
      }),
  );

  test('the start of the update is not its own state: if that is torn, it is named', () =>
    inScratch(async (dir) => {
      const first = requestIn(path.join(dir, 'first'), 2);
      await whole(first, worker);
      const next = requestIn(path.join(dir, 'next'), 2, { fromDir: first.toDir, toVersion: 2 });
      const { plan } = await worker().planUpdate(next);
      await truncate(path.join(first.toDir, 'critic', 'model.safetensors'), 900);
      await expect(worker().forwardBackward({ dir: next.dir, plan, round: 0, shard: 0 })).rejects.toBeInstanceOf(
        CheckpointTorn,
      );
    }));

  test('a missing shard of the critic is made by the step, and a shard of the policy is not used for it', () =>
    inScratch(async (dir) => {
      const reference = await whole(requestIn(path.join(dir, 'reference'), 2), worker);
      const request = requestIn(path.join(dir, 'missing'), 2);
      const one = worker();
      const planned = await one.planUpdate(request);
      const at = { dir: request.dir, plan: planned.plan };
      await one.forwardBackward({ ...at, round: 0, shard: 1 });
      await cp(path.join(request.dir, 'round-0-shard-1'), path.join(request.dir, 'round-0-shard-0'));
      await worker().optimStep({ ...at, round: 0 });
      await worker().optimStep({ ...at, round: 1 });
      await carryOut(request, planned, () => one, 2);
      expect(await bytesOf(request.toDir)).toEqual(reference);
    }));

  test("two workers that take the critic's step at once end in one state, and a late one creates no file again", () =>
    inScratch(async (dir) => {
      const request = requestIn(dir, 2);
      const [a, b] = [worker(), worker()];
      const { plan } = await a.planUpdate(request);
      const at = { dir: request.dir, plan, round: 0 };
      for (const shard of [0, 1]) await a.forwardBackward({ ...at, shard });
      await Promise.all([a.optimStep(at), b.optimStep(at)]);
      expect(
        readdirSync(request.dir)
          .filter((name) => !name.startsWith('round-0-shard'))
          .sort(),
      ).toEqual(['plan', 'round-1']);
      await rm(request.dir, { recursive: true });
      await expect(worker().optimStep({ ...at, round: 1 })).rejects.toBeInstanceOf(PlanLost);
      expect(readdirSync(dir)).toEqual([]);
    }));

  test.each([
    ['the critic', 1],
    ['the policy', 5],
  ] as const)(
    'a step of %s that another worker has taken meanwhile, with what it was reading cleared away, is over',
    (_, round) =>
      inScratch(async (dir) => {
        const [request, other] = [requestIn(dir, 2), worker()];
        const planned = await other.planUpdate(request);
        await carryOut(request, { ...planned, rounds: planned.rounds.slice(0, round) }, () => other);
        const at = { dir: request.dir, plan: planned.plan, round };
        for (const shard of [0, 1]) await other.forwardBackward({ ...at, shard });
        class Slow extends EmbeddedTrainer {
          override async loadState(...given: Parameters<EmbeddedTrainer['loadState']>) {
            await other.optimStep(at);
            return super.loadState(...given);
          }
        }
        class SlowCritics extends ResidentCritic {
          override async take(...given: Parameters<ResidentCritic['take']>) {
            await other.optimStep(at);
            return super.take(...given);
          }
        }
        await new ShardedUpdater(new Slow(), new SlowCritics()).optimStep(at);
        const left = readdirSync(request.dir).sort();
        expect(left).toEqual(round === 1 ? ['plan', 'round-2'] : ['plan']);
      }),
  );

  test('a late step of the critic, whose update was removed in the meantime, creates no file again', () =>
    inScratch(async (dir) => {
      const request = requestIn(dir, 2);
      class Slow extends ResidentCritic {
        override async take(...given: Parameters<ResidentCritic['take']>) {
          const placed = await super.take(...given);
          const { optimizer } = placed.critic;
          const apply = optimizer?.apply.bind(optimizer);
          if (optimizer && apply)
            optimizer.apply = (...step) => {
              rmSync(request.dir, { recursive: true });
              return apply(...step);
            };
          return placed;
        }
      }
      const before = tf.memory().numTensors;
      const late = new ShardedUpdater(new EmbeddedTrainer(), new Slow());
      const { plan } = await late.planUpdate(request);
      const planned = tf.memory().numTensors;
      await expect(late.optimStep({ dir: request.dir, plan, round: 0 })).rejects.toBeInstanceOf(PlanLost);
      expect(existsSync(request.dir)).toBe(false);
      // The trained critic was not written: its memory was freed.
      expect(tf.memory().numTensors).toBeLessThan(planned);
      expect(tf.memory().numTensors).toBeGreaterThan(before);
    }));
});
