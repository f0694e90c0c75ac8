/**
 * Recovery with the real trainer of adapters: after workers were cut off at any call, each time with nothing left in
 * memory, every result has the bits of an undisturbed run; also a step along a gradient that was never saved by hand.
 */
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import type { TinkerOperation } from '../../../protocol/tinker.ts';
import { loadTenantBase, type TenantBase } from '../../../trainer/tenants/tenant-base.ts';
import { TenantAdapters } from '../../../trainer/tenants/tenant-adapters.ts';
import { adam, crossEntropy, datum, settings, untied, writeBase } from '../../trainer/tenants/tenants.ts';
import { inScratch } from '../../trainer/tiny-policy.ts';
import { QUICK, TestBook } from './world.ts';

const open: TestBook[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((book) => book.close()));
});

const step: TinkerOperation = { kind: 'optim_step', adam: { ...adam, weightDecay: 0.1, gradClipNorm: 1 } };
const passing = (seed: number, backward = true): TinkerOperation => ({
  kind: 'pass',
  pass: crossEntropy([datum(9, seed), datum(5, seed + 1)], backward),
});
const path = 'tinker://m/weights/a';

const WORK: readonly TinkerOperation[] = [
  { kind: 'create_model', baseModel: 'base', adapter: settings },
  passing(1),
  passing(2),
  step,
  passing(3),
  step,
  { kind: 'save_weights', path, what: 'training', overwrite: false },
  passing(4),
  passing(5, false),
  { kind: 'load_weights', path, optimizer: true },
  passing(6),
  step,
  passing(7),
  { kind: 'pass', pass: { ...crossEntropy([]), data: [{ ...datum(4, 1), targets: Int32Array.of(1) }] } },
  passing(9),
  step,
  passing(10, false),
];

async function run(base: TenantBase, cuts: readonly number[], operations: number): Promise<readonly string[]> {
  const book = new TestBook();
  open.push(book);
  await book.model('m');
  for (const operation of WORK) await book.ask('m', operation);
  const limits = { ...QUICK, lost: 100, saveAfter: { ...QUICK.saveAfter, operations } };
  for (const calls of [...cuts, Infinity]) {
    // Disposed only at the end: what was cut off may still run in it.
    const worker = book.worker({ trainer: new TenantAdapters(base) }, limits);
    worker.cutAfter = calls;
    await worker.drain('m');
    expect(worker.said).toEqual([]);
  }
  return book.bits();
}

it('the real trainer gives the same bits, however often its workers are lost', () =>
  inScratch(async (dir) => {
    const base = await loadTenantBase(await writeBase(join(dir, 'base'), untied));
    const whole = await run(base, [], 256);
    expect(whole.map((one) => /"kind":"(\w+)"/.exec(one)?.[1])).toEqual(
      'done pass pass optim_step pass optim_step saved pass pass done pass optim_step pass failed pass optim_step pass'.split(
        ' ',
      ),
    );
    expect(await run(base, [9, 17, 31, 24, 38], 4)).toEqual(whole);
  }));
