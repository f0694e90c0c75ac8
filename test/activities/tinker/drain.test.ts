/**
 * Hunts operations that hang, end each worker again and again, or are blamed on the wrong one; and tenants who wait for
 * all of another's work. Not asserted here: recovery (recovery.test.ts).
 */
import { EventEmitter, once } from 'node:events';
import { afterEach, expect, it } from 'vitest';
import { FairTurns } from '../../../activities/tinker/fair-turns.ts';
import type { TinkerOperation, TinkerPass } from '../../../protocol/tinker.ts';
import { adapter, create, pass, sample } from '../../store/tinker/contract.ts';
import { QUICK, TestBook, type TestWorker } from './world.ts';

const open: TestBook[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((book) => book.close()));
});
const newBook = async () => {
  const book = new TestBook();
  open.push(book);
  await book.model('m');
  return book;
};
const passing = (...tokens: number[]): TinkerOperation => ({ kind: 'pass', pass: pass(...tokens) });
const isPoison = (given?: TinkerPass) => given?.data[0]?.tokens[0] === 666;
const never = () => new Promise<never>(() => undefined);

it('what the caller did wrong is a result, and the model goes on without it', async () => {
  const book = await newBook();
  const ids = [];
  for (const operation of [create, passing(1), passing(-1), passing(2)]) ids.push(await book.ask('m', operation));
  await book.worker().drain('m');
  expect(await book.result(ids[2]!)).toMatchObject({
    kind: 'failed',
    category: 'user',
    message: expect.stringContaining('tokens'),
  });
  expect(await book.result(ids[3]!)).toMatchObject({ kind: 'pass' });
});

it('a model whose making failed takes nothing, and says so', async () => {
  const book = await newBook();
  await book.ask('m', { kind: 'create_model', baseModel: 'base', adapter: { ...adapter, rank: 0 } });
  const id = await book.ask('m', passing(1));
  await book.worker().drain('m');
  expect(await book.result(id)).toMatchObject({ category: 'user', message: expect.stringContaining('does not exist') });
});

it('an unloaded model takes nothing more, and leaves no state', async () => {
  const book = await newBook();
  for (const operation of [create, passing(1), { kind: 'unload_model' } as const]) await book.ask('m', operation);
  const late = await book.ask('m', passing(2));
  const worker = book.worker();
  await worker.drain('m');
  expect(await book.result(late)).toMatchObject({ category: 'user', message: expect.stringContaining('was unloaded') });
  expect([worker.engine.trainer.adapters.size, await book.journal.state('m')]).toEqual([0, undefined]);
});

it('what fails now and then is tried again from the same state; what always fails is the fault of the server', async () => {
  const book = await newBook();
  const ids = [];
  for (const operation of [create, passing(1), passing(666), passing(2)]) ids.push(await book.ask('m', operation));
  let failures = 0;
  const before = (_what: string, _id: string, given?: TinkerPass) => {
    if (isPoison(given)) throw new Error('out of memory');
    if (given?.data[0]?.tokens[0] === 1 && (failures += 1) <= 2) throw new Error('the device is busy');
  };
  await book.worker({ before }).drain('m');
  expect(await book.result(ids[2]!)).toEqual({ kind: 'failed', category: 'server', message: 'out of memory' });
  const whole = await newBook();
  for (const operation of [create, passing(1), passing(2)]) await whole.ask('m', operation);
  await whole.worker().drain('m');
  expect(await book.result(ids[3]!)).toEqual(await whole.result(whole.requests[2]!.id));
});

it('a request that ends each of its workers is given up, and those behind it are done', async () => {
  const book = await newBook();
  const ids = [];
  for (const operation of [create, passing(1), passing(666), passing(2)]) ids.push(await book.ask('m', operation));
  let workers = 0;
  for (let end = 'cut'; end === 'cut' && workers < 20; workers += 1) {
    const worker: TestWorker = book.worker({
      before: (_what, _id, given) => {
        if (!isPoison(given)) return;
        worker.cut();
        return never();
      },
    });
    end = await worker.drain('m');
  }
  expect(workers).toBe(QUICK.lost + 1);
  expect(await book.result(ids[2]!)).toMatchObject({
    category: 'server',
    message: expect.stringContaining('5 workers ended'),
  });
  expect(await book.result(ids[3]!)).toMatchObject({ kind: 'pass' });
});

it('a sample that ends each of its workers is given up, and none beside it', async () => {
  const book = await newBook();
  await book.journal.putSampler({ id: 'x', session: 's', tenant: 'ann', baseModel: 'base' });
  const ids = [];
  for (let i = 0; i < 8; i += 1) ids.push(await book.ask('x', sample(i === 3 ? 666 : i)));
  let workers = 0;
  for (let end = 'cut'; end === 'cut' && workers < 30; workers += 1) {
    const worker: TestWorker = book.worker({
      beforeSample: async ({ seed }) => {
        if (seed !== 666) return never();
        worker.cut();
        return never();
      },
    });
    // The others end only once they are not beside it.
    const kind: TestWorker =
      workers < 2
        ? worker
        : book.worker({ beforeSample: ({ seed }) => (seed === 666 ? (kind.cut(), never()) : undefined) });
    end = await kind.sample();
  }
  const results = await Promise.all(ids.map((id) => book.result(id)));
  expect(results.map((result) => result?.kind)).toEqual(ids.map((_, i) => (i === 3 ? 'failed' : 'sample')));
  expect(workers).toBeLessThanOrEqual(QUICK.lost + 1);
});

it('a sample that takes too long is stopped before it is tried again', async () => {
  const book = await newBook();
  await book.journal.putSampler({ id: 'x', session: 's', tenant: 'ann', baseModel: 'base' });
  const id = await book.ask('x', sample(1));
  const signals: AbortSignal[] = [];
  const worker = book.worker(
    {
      beforeSample: (_sample, signal) => {
        expect(signals.every(({ aborted }) => aborted)).toBe(true);
        if (signal !== undefined) signals.push(signal);
        return never();
      },
    },
    { ...QUICK, operationMs: 20 },
  );
  await worker.sample();
  expect(await book.result(id)).toMatchObject({ category: 'server', message: expect.stringContaining('longer than') });
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true]);
});

it('a pass that takes too long is stopped before it is tried again', async () => {
  const book = await newBook();
  const ids = [];
  for (const operation of [create, passing(1), passing(2)]) ids.push(await book.ask('m', operation));
  const signals: AbortSignal[] = [];
  const worker = book.worker(
    {
      before: (_what, _id, given, signal) => {
        if (given?.data[0]?.tokens[0] !== 1) return;
        expect(signals.every(({ aborted }) => aborted)).toBe(true);
        if (signal !== undefined) signals.push(signal);
        return never();
      },
    },
    { ...QUICK, operationMs: 50 },
  );
  await worker.drain('m');
  expect(await book.result(ids[1]!)).toMatchObject({
    category: 'server',
    message: expect.stringContaining('longer than'),
  });
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true]);
  expect(await book.result(ids[2]!)).toMatchObject({ kind: 'pass' });
});

/** Ann has 64 samples under way that never end, and more that wait. */
async function withLongSamples(limits = QUICK) {
  const book = await newBook();
  const bobs = Array.from({ length: 40 }, (_, i) => 1000 + i);
  for (const tenant of ['ann', 'bob', 'cy'])
    await book.journal.putSampler({ id: `x-${tenant}`, session: 's', tenant, baseModel: 'base' });
  for (let i = 0; i < 100; i += 1) await book.ask('x-ann', sample(i), 'ann');
  const under = { ann: 0, bob: 0 };
  const events = new EventEmitter();
  const started = async (of: 'ann' | 'bob', n: number) => {
    while (under[of] < n) await once(events, 'started');
  };
  const untilAborted = async (signal: AbortSignal | undefined) => {
    if (!signal?.aborted) await once(signal!, 'abort');
    signal?.throwIfAborted();
  };
  const worker = book.worker(
    {
      beforeSample: async ({ seed }, signal) => {
        if (seed === 5000) return;
        under[seed < 1000 ? 'ann' : 'bob'] += 1;
        events.emit('started');
        await untilAborted(signal);
      },
    },
    limits,
  );
  return { book, worker, under, started, bobs };
}

it('64 long samples of one tenant keep out nobody: others have their share at once, and no more', async () => {
  const { book, worker, under, started, bobs } = await withLongSamples();
  const ended = worker.sample();
  await started('ann', 64);
  for (const seed of bobs) await book.ask('x-bob', sample(seed), 'bob');
  await started('bob', 32);
  const quick = await book.ask('x-cy', sample(5000), 'cy');
  expect(await book.journal.waitFor(quick, 'cy', 20_000)).toMatchObject({ state: 'finished' });
  expect(under).toEqual({ ann: 64, bob: 32 });
  worker.stop();
  expect(await ended).toBe('more');
});

it('a burst that is read in one go, beyond its own share, keeps out nobody who comes after it', async () => {
  const { book, worker, under, started } = await withLongSamples({ ...QUICK, samples: 6 });
  const pairs = sample(2000);
  if (pairs.kind !== 'sample') throw new TypeError(pairs.kind);
  for (const seed of [2000, 2001, 2002])
    await book.ask('x-bob', { ...pairs, sample: { ...pairs.sample, seed, count: 2 } }, 'bob');
  const ended = worker.sample();
  // Ann and Bob have three each of six; one more pair of Bob's would be four.
  await started('ann', 3);
  await started('bob', 1);
  const quick = await book.ask('x-cy', sample(5000), 'cy');
  expect(await book.journal.waitFor(quick, 'cy', 20_000)).toMatchObject({ state: 'finished' });
  expect(under.bob).toBe(1);
  worker.stop();
  expect(await ended).toBe('more');
});

it('a request for more samples than a share starts beside them, and keeps out nobody', async () => {
  const { book, worker, under, started } = await withLongSamples();
  const ended = worker.sample();
  await started('ann', 64);
  const large = sample(2000);
  if (large.kind !== 'sample') throw new TypeError(large.kind);
  await book.ask('x-bob', { ...large, sample: { ...large.sample, count: 40 } }, 'bob');
  await started('bob', 1);
  const quick = await book.ask('x-cy', sample(5000), 'cy');
  expect(await book.journal.waitFor(quick, 'cy', 20_000)).toMatchObject({ state: 'finished' });
  expect(under).toEqual({ ann: 64, bob: 1 });
  worker.stop();
  expect(await ended).toBe('more');
});

it('an execution whose time is over does not wait for its longest sample, and what it stops is made again', async () => {
  const { book, worker, started } = await withLongSamples({ ...QUICK, sliceMs: 100 });
  const ended = worker.sample();
  await started('ann', 64);
  expect(await ended).toBe('more');
  await book.worker().sample();
  const results = await Promise.all(book.requests.slice(0, 100).map(({ id }) => book.result(id)));
  expect(results.every((result) => result?.kind === 'sample')).toBe(true);
});

it('what failed with a model that cannot be brought back is not tried again', async () => {
  const book = await newBook();
  await book.ask('m', create);
  await book.worker().drain('m');
  for (const token of [1, 2, 3]) await book.ask('m', passing(token));
  let loads = 0;
  const before = (what: string) => {
    if (what !== 'load') return;
    loads += 1;
    throw new Error('no file');
  };
  await book.worker({ before }).drain('m');
  expect(loads).toBe(QUICK.failures);
});

it('samples run as many sequences at once as there is room for, and a larger one alone', async () => {
  const book = await newBook();
  await book.journal.putSampler({ id: 'x', session: 's', tenant: 'ann', baseModel: 'base' });
  const ids = [];
  for (const count of [3, 3, 20, 3, 3, 1]) {
    const one = sample(count);
    if (one.kind === 'sample') ids.push(await book.ask('x', { ...one, sample: { ...one.sample, count } }));
  }
  let [running, most] = [0, 0];
  const beside: number[] = [];
  const worker = book.worker(
    {
      beforeSample: async ({ count }) => {
        if (count === 20) beside.push(running);
        most = Math.max(most, count === 20 ? 0 : running + count);
        running += count;
        await new Promise((resolve) => setTimeout(resolve, 5));
        running -= count;
      },
    },
    { ...QUICK, samples: 8 },
  );
  await worker.sample();
  const results = await Promise.all(ids.map((id) => book.result(id)));
  expect(results.map((result) => result?.kind)).toEqual(ids.map(() => 'sample'));
  expect([beside, most]).toEqual([[0], 7]);
});

it('a model that cannot be brought back fails what waits, and is tried again with the next request', async () => {
  const book = await newBook();
  await book.ask('m', create);
  await book.worker().drain('m');
  const lost = await book.ask('m', passing(1));
  let isBroken = true;
  const worker = book.worker({
    before: (what) => {
      if (what === 'load' && isBroken) throw new Error('no file');
    },
  });
  await worker.drain('m');
  expect(await book.result(lost)).toMatchObject({ category: 'server', message: expect.stringContaining('no file') });
  isBroken = false;
  const next = await book.ask('m', passing(2));
  await worker.drain('m');
  expect(await book.result(next)).toMatchObject({ kind: 'pass' });
});

it('an operation that never ends fails after its time', async () => {
  const book = await newBook();
  const ids = [];
  for (const operation of [create, passing(666), passing(2)]) ids.push(await book.ask('m', operation));
  const before = (_what: string, _id: string, given?: TinkerPass) => (isPoison(given) ? never() : undefined);
  await book.worker({ before }, { ...QUICK, operationMs: 50 }).drain('m');
  expect(await book.result(ids[1]!)).toMatchObject({
    category: 'server',
    message: expect.stringContaining('took longer'),
  });
  expect(await book.result(ids[2]!)).toMatchObject({ kind: 'pass' });
});

it('a saved name is taken once, unless it is overwritten', async () => {
  const book = await newBook();
  const save = (overwrite: boolean): TinkerOperation => ({
    kind: 'save_weights',
    path: 'tinker://m/weights/a',
    what: 'training',
    overwrite,
    userMetadata: { k: 1 },
  });
  for (const operation of [create, save(false), save(false), passing(1), save(true)]) await book.ask('m', operation);
  await book.worker().drain('m');
  const kinds = await Promise.all(book.requests.map(async ({ id }) => (await book.result(id))?.kind));
  expect(kinds).toEqual(['done', 'saved', 'failed', 'pass', 'saved']);
  expect(await book.journal.checkpoint('tinker://m/weights/a')).toMatchObject({ run: 'm', userMetadata: { k: 1 } });
});

it('a checkpoint that the model overwrites before it loads it is read as it is then', async () => {
  const book = await newBook();
  const path = 'tinker://m/weights/a';
  const save = (to: string): TinkerOperation => ({ kind: 'save_weights', path: to, what: 'training', overwrite: true });
  for (const operation of [create, passing(1), save(path)]) await book.ask('m', operation);
  await book.worker().drain('m');
  // All are accepted before the first of them runs.
  const ids = [];
  const adam = { learningRate: 1, beta1: 0.9, beta2: 0.95, eps: 1e-12, weightDecay: 0, gradClipNorm: 0 };
  const load: TinkerOperation = { kind: 'load_weights', path, optimizer: true };
  for (const operation of [{ kind: 'optim_step', adam } as const, save(path), load, save('tinker://m/weights/b')])
    ids.push(await book.ask('m', operation));
  await book.worker().drain('m');
  const [, overwritten, loaded, saved] = await Promise.all(ids.map((id) => book.result(id)));
  expect(loaded).toEqual({ kind: 'done' });
  expect(saved).toEqual({ ...overwritten, path: 'tinker://m/weights/b' });
});

it('a tenant with hundreds of waiting passes lets another one have every second turn', async () => {
  const book = await newBook();
  for (const id of ['m2', 'm3']) await book.model(id);
  await book.model('n', 'bob');
  const order: string[] = [];
  const gate = Promise.withResolvers<void>();
  const worker = book.worker({
    before: async (what, id) => {
      if (what === 'create') await gate.promise;
      else if (what === 'pass') order.push(id.split('#')[0] ?? '');
    },
  });
  for (const id of ['m', 'm2', 'm3']) for (let i = 0; i < 40; i += 1) await book.ask(id, i === 0 ? create : passing(i));
  for (let i = 0; i < 10; i += 1) await book.ask('n', i === 0 ? create : passing(i), 'bob');
  const drains = ['m', 'm2', 'm3', 'n'].map((id) => worker.drain(id));
  gate.resolve();
  await Promise.all(drains);
  // Bob's ninth pass is done when the other's three models together have had little more than nine.
  expect(order.lastIndexOf('n')).toBeLessThan(40);
  expect(order.length).toBe(39 * 3 + 9);
});

it('turns go round tenants, then round the lanes of each', async () => {
  const turns = new FairTurns();
  const order: string[] = [];
  const { signal } = new AbortController();
  const ask = (tenant: string, lane: string) =>
    turns.run(tenant, lane, signal, async () => void order.push(`${tenant}${lane}`));
  await Promise.all([
    ...['1', '1', '1', '2', '2'].map((lane) => ask('a', lane)),
    ask('b', '1'),
    ask('b', '1'),
    ask('c', '9'),
  ]);
  expect(order).toEqual(['a1', 'a1', 'b1', 'c9', 'a2', 'b1', 'a1', 'a2']);
});
