/** Hunts plans of other versions of this program that are read as if they were this version's. */

import { truncate } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { EmbeddedTrainer } from '../../../trainer/embedded/embedded-trainer.ts';
import type { PlanRequest } from '../../../trainer/update-request.ts';
import { PLAN_FORMAT, UnknownPlanFormat } from '../../../trainer/sharded/plan-file.ts';
import { readSealed, writeSealed } from '../../../trainer/sharded/sealed-file.ts';
import { ShardedUpdater } from '../../../trainer/sharded/sharded-updater.ts';
import { inScratch } from '../tiny-policy.ts';
import { planRequest } from './plan-request.ts';

type Plan = Readonly<Record<string, unknown>>;

const worker = () => new ShardedUpdater(new EmbeddedTrainer());
const fileOf = ({ dir }: PlanRequest): string => path.join(dir, 'plan');

/** Writes a plan, then replaces it by `change` of it. Returns the changed plan's digest. */
async function replaced(request: PlanRequest, change: (plan: Plan) => Plan): Promise<string> {
  await worker().planUpdate(request);
  return writeSealed(fileOf(request), change((await readSealed<Plan>(fileOf(request)))!.value));
}

describe('a plan', () => {
  test('records its format', () =>
    inScratch(async (dir) => {
      const request = await planRequest(dir, 2);
      await worker().planUpdate(request);
      expect((await readSealed<Plan>(fileOf(request)))!.value['format']).toBe(PLAN_FORMAT);
    }));

  test('that is torn is written again', () =>
    inScratch(async (dir) => {
      const request = await planRequest(dir, 2);
      const planned = await worker().planUpdate(request);
      await truncate(fileOf(request), 300);
      expect(await worker().planUpdate(request)).toEqual(planned);
      await worker().forwardBackward({ dir: request.dir, plan: planned.plan, round: 0, shard: 0 });
    }));

  test.each([PLAN_FORMAT + 1, '1', null, undefined])(
    'of format %j is refused by all that read it, with what helps',
    (format) =>
      inScratch(async (dir) => {
        const request = await planRequest(dir, 2);
        const plan = await replaced(request, (known) => ({ ...known, format, rounds: 'of another shape' }));
        const at = { dir: request.dir, plan, round: 0 };
        for (const read of [
          () => worker().planUpdate(request),
          () => worker().forwardBackward({ ...at, shard: 0 }),
          () => worker().optimStep(at),
        ]) {
          const error = await read().catch((thrown: unknown) => thrown);
          expect(error).toBeInstanceOf(UnknownPlanFormat);
          expect((error as Error).message).toContain(
            `plan format ${String(format)}, and this worker reads format ${PLAN_FORMAT}`,
          );
          expect((error as Error).message).toContain(`remove ${request.dir}`);
        }
      }),
  );
});
