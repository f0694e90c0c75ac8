/**
 * The plan that a worker keeps in memory. Hunts a plan that is used though its files are missing or replaced, and one
 * that stays in memory when it is not needed. Not asserted: how long it stays.
 */

import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { EmbeddedTrainer } from '../../../trainer/embedded/embedded-trainer.ts';
import type { PlanRequest } from '../../../trainer/update-request.ts';
import { KnownPlan } from '../../../trainer/sharded/known-plan.ts';
import { PlanLost } from '../../../trainer/sharded/located-plan.ts';
import { ShardedUpdater } from '../../../trainer/sharded/sharded-updater.ts';
import { inScratch } from '../tiny-policy.ts';
import { planRequest } from './plan-request.ts';

const clear = ({ dir }: PlanRequest) => rm(dir, { recursive: true });

async function planned(dir: string, known?: KnownPlan, trainer = new EmbeddedTrainer()) {
  const [request, worker] = [await planRequest(dir, 2), new ShardedUpdater(trainer, undefined, known)];
  const { plan } = await worker.planUpdate(request);
  return { request, worker, at: { dir: request.dir, plan, round: 0 } };
}

describe('a worker that has made a shard', () => {
  test('notices that the update was removed, and creates no file of it again', () =>
    inScratch(async (dir) => {
      const { request, worker, at } = await planned(dir);
      await worker.forwardBackward({ ...at, shard: 0 });
      await clear(request);
      await expect(worker.forwardBackward({ ...at, shard: 1 })).rejects.toBeInstanceOf(PlanLost);
      await expect(worker.optimStep(at)).rejects.toBeInstanceOf(PlanLost);
      expect(existsSync(request.dir)).toBe(false);
    }));

  test('notices it too if that happens while it makes another shard', () =>
    inScratch(async (dir) => {
      const { request, worker, at } = await planned(dir);
      await worker.forwardBackward({ ...at, shard: 0 });
      let cleared: Promise<void> | undefined;
      await expect(
        worker.forwardBackward({ ...at, shard: 1 }, () => void (cleared ??= clear(request))),
      ).rejects.toBeInstanceOf(PlanLost);
      await cleared;
      expect(existsSync(request.dir)).toBe(false);
    }));

  test('does not use its plan if another one replaced it', () =>
    inScratch(async (dir) => {
      const { request, worker, at } = await planned(dir);
      await worker.forwardBackward({ ...at, shard: 0 });
      await clear(request);
      const other = await new ShardedUpdater(new EmbeddedTrainer()).planUpdate({
        ...request,
        algorithm: { ...request.algorithm, learningRate: 2e-3 },
      });
      await expect(worker.forwardBackward({ ...at, shard: 1 })).rejects.toThrow('has another plan of an update');
      await worker.forwardBackward({ ...at, plan: other.plan, shard: 1 });
    }));
});

describe('a plan in memory', () => {
  test('is dropped with the last step of its update', () =>
    inScratch(async (dir) => {
      const known = new KnownPlan();
      const { worker, at } = await planned(dir, known);
      for (const round of [0, 1]) {
        await worker.forwardBackward({ ...at, round, shard: 0 });
        expect(known.isHeld).toBe(true);
        await worker.optimStep({ ...at, round });
      }
      expect(known.isHeld).toBe(false);
    }));

  test('is dropped when it is not used, and read again when it is needed', () =>
    inScratch(async (dir) => {
      const known = new KnownPlan(1);
      const { worker, at } = await planned(dir, known);
      await worker.forwardBackward({ ...at, shard: 0 });
      while (known.isHeld) await sleep(5);
      await worker.forwardBackward({ ...at, shard: 1 });
      await worker.optimStep(at);
    }));

  test('is dropped if its file is lost', () =>
    inScratch(async (dir) => {
      const known = new KnownPlan();
      const { request, worker, at } = await planned(dir, known);
      await worker.forwardBackward({ ...at, shard: 0 });
      await clear(request);
      await expect(worker.forwardBackward({ ...at, shard: 1 })).rejects.toBeInstanceOf(PlanLost);
      expect(known.isHeld).toBe(false);
    }));
});
