/**
 * Hunts futures that are lost, doubled or different after workers were cut off at any call: all results and checkpoints
 * must have the bits of an undisturbed run. Not asserted here: the real engine, and real processes.
 */
import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import type { TinkerOperation } from '../../../protocol/tinker.ts';
import { create, pass, sample } from '../../store/tinker/contract.ts';
import { QUICK, TestBook } from './world.ts';

const open: TestBook[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((book) => book.close()));
});
const newBook = async (...models: string[]) => {
  const book = new TestBook();
  open.push(book);
  for (const id of models) await book.model(id);
  return book;
};

const adam = { learningRate: 0.1, beta1: 0.9, beta2: 0.95, eps: 1e-12, weightDecay: 0, gradClipNorm: 0 };
const step: TinkerOperation = { kind: 'optim_step', adam };
const save = (name: string, what: 'training' | 'sampler' = 'training', run = 'm'): TinkerOperation => ({
  kind: 'save_weights',
  path: `tinker://${run}/weights/${name}`,
  what,
  overwrite: false,
});
const load = (name: string, optimizer = true): TinkerOperation => ({
  kind: 'load_weights',
  path: `tinker://m/weights/${name}`,
  optimizer,
});
const passing = (...tokens: number[]): TinkerOperation => ({ kind: 'pass', pass: pass(...tokens) });

/** Ends with a gradient that no step has taken, and an adapter that is not saved. */
const WORK: readonly TinkerOperation[] = [
  create,
  passing(1),
  passing(2, 3),
  step,
  passing(4),
  save('a'),
  passing(-1),
  passing(5),
  step,
  save('a'),
  save('b', 'sampler'),
  passing(6),
  load('a'),
  passing(7),
  step,
  load('b', false),
  passing(8),
  step,
  passing(9),
];

async function undisturbed(work: readonly TinkerOperation[]) {
  const book = await newBook('m');
  for (const operation of work) await book.ask('m', operation);
  await book.worker().drain('m');
  return { book, bits: await book.bits() };
}

/** What a step shows of a model depends on its weights, its gradient and its moments. */
async function proof(book: TestBook) {
  const id = await book.ask('m', step);
  const forward = await book.ask('m', passing(10));
  await book.worker().drain('m');
  return [await book.result(id), await book.result(forward)];
}

it('an undisturbed run gives every kind of result', async () => {
  const { book } = await undisturbed(WORK);
  const results = await Promise.all(book.requests.map(({ id }) => book.result(id)));
  expect(results.map((result) => result?.kind)).toEqual(
    'done pass pass optim_step pass saved failed pass optim_step failed saved pass done pass optim_step done pass optim_step pass'.split(
      ' ',
    ),
  );
  expect(results[6]).toMatchObject({ category: 'user', message: expect.stringContaining('tokens') });
  expect(results[9]).toMatchObject({ category: 'user', message: expect.stringContaining('exists') });
});

it('workers that are cut off at any call change no bit of any result', async () => {
  const whole = await undisturbed(WORK);
  const expected = await proof(whole.book);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 3, maxLength: 6 }),
      fc.integer({ min: 1, max: 6 }),
      async (cuts, operations) => {
        const book = await newBook('m');
        for (const operation of WORK) await book.ask('m', operation);
        const limits = { ...QUICK, lost: 100, saveAfter: { ...QUICK.saveAfter, operations } };
        for (const calls of cuts) {
          const worker = book.worker({}, limits);
          worker.cutAfter = calls;
          await worker.drain('m');
        }
        const last = book.worker({}, limits);
        expect(await last.drain('m')).toBe('idle');
        expect(await book.bits()).toEqual(whole.bits);
        expect(last.said).toEqual([]);
        expect(await proof(book)).toEqual(expected);
      },
    ),
    { numRuns: Number(process.env['RUNS'] ?? 4), seed: Number(process.env['SEED'] ?? 7) },
  );
});

it('a worker that was cut off from its lane and works on changes nothing', async () => {
  const whole = await undisturbed(WORK);
  const book = await newBook('m');
  for (const operation of WORK) await book.ask('m', operation);
  let calls = 0;
  const frozen = Promise.withResolvers<void>();
  const late = book.worker({ before: () => ((calls += 1) === 6 ? frozen.promise : undefined) });
  const draining = late.drain('m');
  await expect.poll(() => calls).toBe(6);
  expect(await book.worker().drain('m')).toBe('idle');
  frozen.resolve();
  await expect(draining).rejects.toMatchObject({ name: 'LaneLost' });
  expect(late.residents.models).toEqual([]);
  expect(await book.bits()).toEqual(whole.bits);
  expect(await proof(book)).toEqual(await proof(whole.book));
});

it('a rebuild repeats only what is not in the state, and needs no checkpoint that was deleted', async () => {
  const book = await newBook('m');
  for (const operation of WORK.slice(0, 14)) await book.ask('m', operation);
  const first = book.worker({}, { ...QUICK, idleMs: 60_000 });
  const draining = first.drain('m');
  await expect.poll(async () => (await book.bits()).includes('waiting')).toBe(false);
  first.cut();
  await draining;
  await book.journal.deleteCheckpoint('tinker://m/weights/a');
  await book.journal.keepHouse(Date.now() + 3_600_000);
  await book.ask('m', step);
  const seen: string[] = [];
  await book.worker({ before: (what) => void seen.push(what) }).drain('m');
  expect(seen).toEqual(['load', 'pass', 'optimStep', 'save']);
  const whole = await undisturbed(WORK.slice(0, 15));
  expect(await book.bits()).toEqual(whole.bits);
});

it('a model that is not in memory any more is evicted with its gradient, and comes back', async () => {
  const book = await newBook('m', 'n', 'o');
  const whole = await newBook('m', 'n', 'o');
  const limits = { ...QUICK, residents: 1 };
  const worker = book.worker({}, limits);
  const drains = ['m', 'n', 'o'].map(async (id) => {
    for (const operation of [create, passing(1), passing(2)]) await book.ask(id, operation);
    return worker.drain(id);
  });
  await Promise.all(drains);
  expect(worker.residents.models.length).toBe(1);
  for (const id of ['m', 'n', 'o']) await book.ask(id, step);
  for (const id of ['m', 'n', 'o']) await worker.drain(id);
  const all = whole.worker();
  for (const id of ['m', 'n', 'o']) {
    for (const operation of [create, passing(1), passing(2)]) await whole.ask(id, operation);
    await all.drain(id);
  }
  for (const id of ['m', 'n', 'o']) await whole.ask(id, step);
  for (const id of ['m', 'n', 'o']) await all.drain(id);
  const sorted = async (of: TestBook) => (await of.bits()).toSorted();
  expect(await sorted(book)).toEqual(await sorted(whole));
});

it('an idle model stays in memory for its next execution, which rebuilds nothing', async () => {
  const book = await newBook('m');
  const seen: string[] = [];
  const worker = book.worker({ before: (what) => void seen.push(what) });
  await book.ask('m', create);
  await worker.drain('m');
  await book.ask('m', passing(1));
  await worker.drain('m');
  expect(seen).toEqual(['create', 'save', 'pass', 'save']);
  await book.worker().drain('m');
  seen.length = 0;
  await book.ask('m', passing(2));
  await worker.drain('m');
  expect(seen[0]).toBe('load');
});

it('samples of many adapters run together, and again after a cut with the same tokens', async () => {
  const ask = async (book: TestBook) => {
    for (const operation of [create, save('a', 'sampler'), passing(1), step, save('b', 'sampler')])
      await book.ask('m', operation);
    await book.worker().drain('m');
    for (const [id, path] of [
      ['x', 'a'],
      ['y', 'b'],
      ['z', undefined],
      ['gone', 'c'],
    ] as const)
      await book.journal.putSampler({
        id,
        session: 's',
        tenant: 'ann',
        baseModel: 'base',
        ...(path && { path: `tinker://m/weights/${path}` }),
      });
    for (let i = 0; i < 10; i += 1) for (const id of ['x', 'y', 'z']) await book.ask(id, sample(i));
    await book.ask('gone', sample(1));
  };
  const [book, whole] = [await newBook('m'), await newBook('m')];
  await Promise.all([ask(book), ask(whole)]);
  const one = whole.worker();
  await one.sample();
  expect(one.engine.atOnce).toBeGreaterThan(20);
  for (const calls of [5, 20, 60]) {
    const worker = book.worker({}, { ...QUICK, lost: 100 });
    worker.cutAfter = calls;
    await worker.sample();
  }
  expect(await book.worker({}, { ...QUICK, lost: 100 }).sample()).toBe('idle');
  expect(await book.bits()).toEqual(await whole.bits());
  expect(await whole.result(whole.requests.at(-1)!.id)).toMatchObject({ kind: 'failed', category: 'user' });
});

it('a state is whole on disk before it counts', async () => {
  const { book } = await undisturbed(WORK);
  const state = await book.journal.state('m');
  expect(state?.through).toBe(WORK.length - 1);
  expect(JSON.parse(readFileSync(join(state!.dir, 'adapter.json'), 'utf8'))).toMatchObject({
    gradient: expect.stringMatching(/^[0-9a-f]+$/),
  });
});
