/**
 * Hunts critics in shards whose bits depend on who made which part, that differ from what one worker would have trained, or
 * that are lost between the rounds of the critic and those of the policy. Not asserted: that shards save time.
 */

import { createHash } from 'node:crypto';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { cp, readFile, rm, truncate } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { readCheckpointRecord } from '../../../trainer/checkpoints/checkpoint.ts';
import { CheckpointTorn } from '../../../trainer/checkpoints/verified-checkpoint.ts';
import { criticPlace } from '../../../trainer/critic/critic-files.ts';
import { CriticTally } from '../../../trainer/critic/critic-metrics.ts';
import { ResidentCritic } from '../../../trainer/critic/resident-critic.ts';
import { learnValues, planCritic, settingsWithCritic } from '../../../trainer/critic/train-critic.ts';
import { EmbeddedTrainer } from '../../../trainer/embedded/embedded-trainer.ts';
import type { Datum, PlanRequest } from '../../../trainer/update-request.ts';
import type { NewLora, UpdateSettings } from '../../../protocol/algorithm.ts';
import { readSafetensors } from '../../../trainer/model/safetensors.ts';
import { PlanLost } from '../../../trainer/sharded/located-plan.ts';
import { ShardedUpdater } from '../../../trainer/sharded/sharded-updater.ts';
import { tf } from '../../../trainer/tensorflow.ts';
import { NoCredit } from '../../../trainer/training/advantages.ts';
import { metricsOf, Updater } from '../../../trainer/update.ts';
import { prepareUpdate } from '../../../trainer/training/prepare-update.ts';
import { asSampled, inScratch, qwen3Dir } from '../tiny-policy.ts';
import { carryOut, type Who, worker } from './parts.ts';

const critic = {
  learningRate: 3e-3,
  minibatches: 1,
  maxGradNorm: 1,
  weightDecay: 0.01,
  betas: [0.9, 0.95] as const,
  epsilon: 1e-8,
};
const algorithm: UpdateSettings = {
  advantage: 'gae',
  lambd: 0.95,
  critic,
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

/** Of two groups; the last rollout is two sequences. */
const sampled = await asSampled(qwen3Dir, [40, 23, 61, 12, 33, 50, 18, 44]);
const data: Datum[] = sampled.map((one, i) => ({
  ...one,
  credit: { reward: Math.min(i, 6) % 3, group: `g${Math.min(i, 6) % 2}`, rollout: `r${Math.min(i, 6)}` },
}));

const requestIn = (dir: string, shards: number, more: Partial<PlanRequest> = {}): PlanRequest => ({
  dir: path.join(dir, 'update'),
  shards,
  fromDir: qwen3Dir,
  toDir: path.join(dir, 'v1'),
  toVersion: 1,
  data,
  algorithm,
  critic: { base: qwen3Dir, seed: 5 },
  input: 'this',
  ...more,
});

const lora = { rank: 2, alpha: 4, targetModules: ['q_proj', 'down_proj'] as const };
const policyLora: NewLora = { ...lora, seed: 3 };
/** Which of the two is trained whole, and which as an adapter. */
const kinds: ReadonlyArray<readonly [string, Partial<PlanRequest>]> = [
  ['both whole', {}],
  ['an adapter of the policy', { lora: policyLora }],
  ['an adapter of the critic', { critic: { base: qwen3Dir, seed: 5, lora } }],
  ['two adapters', { lora: policyLora, critic: { base: qwen3Dir, seed: 5, lora } }],
];

/** Digests of all files of a checkpoint: of the bytes themselves a difference would take minutes to print. */
async function bytesOf(dir: string): Promise<Record<string, string>> {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true })
    .flatMap((one) => (one.isFile() ? [path.relative(dir, path.join(one.parentPath, one.name))] : []))
    .sort();
  return Object.fromEntries(
    await Promise.all(
      files.map(
        async (name) =>
          [
            name,
            createHash('sha256')
              .update(await readFile(path.join(dir, name)))
              .digest('hex'),
          ] as const,
      ),
    ),
  );
}

async function whole(request: PlanRequest, who: Who): Promise<Record<string, string>> {
  await carryOut(request, await who(0, 'step').planUpdate(request), who);
  return bytesOf(request.toDir);
}

const moments = (dir: string) => readSafetensors(path.join(dir, 'optimizer.safetensors'));

/** Largest difference of two sets of tensors, by the largest number among them. */
function apart(a: ReadonlyMap<string, { data: Float32Array }>, b: typeof a): number {
  let [off, largest] = [0, 0];
  expect([...a.keys()].sort()).toEqual([...b.keys()].sort());
  for (const [name, { data: values }] of a)
    for (const [i, x] of values.entries())
      [off, largest] = [Math.max(off, Math.abs(x - b.get(name)!.data[i]!)), Math.max(largest, Math.abs(x))];
  expect(largest).toBeGreaterThan(0);
  return off / largest;
}

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
        // After one step from none the first moment is a tenth of the gradient.
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
        for (const micro of step!.micro) await learnValues(loaded, micro, step!.sequences, settings, plain);
        return loaded.model.gradients.flatten(loaded.model.decoder).dataSync() as Float32Array;
      };
      const [together, finer] = [await gradientOf(1), await gradientOf(shards)];
      expect(apart(new Map([['', { data: together }]]), new Map([['', { data: finer }]]))).toBeLessThan(1e-4);
      await session.release();
    }),
  );

  test("lays the critic's rounds before the policy's, and its state is kept until both are written", () =>
    inScratch(async (dir) => {
      const request = requestIn(dir, 2);
      const one = worker();
      const planned = await one.planUpdate(request);
      // Two epochs of one minibatch of the critic's, then two of two of the policy's.
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

  test('goes on elsewhere when a worker dies before or after any part, with torn shards, and ends in the same bits', () =>
    inScratch(async (dir) => {
      // Four rounds of the critic's, then two of the policy's.
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
        // Another one is asked for everything again, from the plan on.
        const second = worker();
        expect(await second.planUpdate(request)).toEqual(planned);
        await carryOut(request, planned, () => second);
        expect(await bytesOf(request.toDir)).toEqual(reference);
        // The first one was only slow: what it still does changes nothing, and leaves nothing.
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
        // Four rounds of the critic's, then two of the policy's.
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

  test('what the update begins from is no state of its own: where that is torn it is named', () =>
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

  test('a missing shard of the critic is made where they are added up, and one of the policy is no shard of it', () =>
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

  test("two that take the critic's step at once end in one state, and one that comes late brings nothing back", () =>
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

  test('a step of the critic that comes late, when all was cleared away while it was made, brings nothing back', () =>
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
      // The critic that was stepped is in no place: its memory was given back.
      expect(tf.memory().numTensors).toBeLessThan(planned);
      expect(tf.memory().numTensors).toBeGreaterThan(before);
    }));

  test('a critic beside the policy goes on with its moments, whichever way either update was made', () =>
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
      // One that was lost is named, never begun again.
      await rm(path.join(plain, 'critic'), { recursive: true });
      await expect(
        worker().planUpdate(requestIn(path.join(dir, 'x'), 2, { fromDir: plain, toVersion: 2 })),
      ).rejects.toBeInstanceOf(CheckpointTorn);
    }));

  test('leaves nothing in memory but the two that were worked on last, and without a critic one of them', () =>
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

  test('of two plans one after the other the first stands, and names what was valued', () =>
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
