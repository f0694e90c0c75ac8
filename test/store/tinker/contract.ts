/**
 * The contract of the Tinker journal, seen by two openers as by two processes. It hunts futures that are lost, doubled,
 * answered twice in different ways or seen by a stranger; operations out of order; and late workers that still write.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TinkerOperation, TinkerPass, TinkerResult } from '../../../protocol/tinker.ts';
import type { TinkerCheckpoint, TinkerModel } from '../../../store/tinker/journal.ts';
import type { SqliteJournal } from '../../../store/tinker/sqlite-journal.ts';

export interface JournalUnderTest {
  readonly open: () => SqliteJournal;
  readonly remove: () => void;
}

export const adapter = { rank: 8, alpha: 32, seed: 1, attention: true, mlp: true, unembed: false };
export const at = '2026-01-01T00:00:00.000Z';
export const model = (id: string, over: Partial<TinkerModel> = {}): TinkerModel => ({
  id,
  session: 's',
  tenant: 'ann',
  baseModel: 'base',
  adapter,
  createdAt: at,
  usedAt: new Date().toISOString(),
  ...over,
});
export const create: TinkerOperation = { kind: 'create_model', baseModel: 'base', adapter };
export const pass = (...tokens: number[]): TinkerPass => ({
  data: [{ tokens: Int32Array.from(tokens), targets: Int32Array.from(tokens), weights: Float32Array.from([0.5, NaN]) }],
  loss: 'cross_entropy',
  config: { clip: -0 },
  backward: true,
});
export const sample = (seed: number): TinkerOperation => ({
  kind: 'sample',
  sample: {
    prompt: Int32Array.of(1, 2),
    count: 1,
    maxTokens: 4,
    temperature: 1,
    topP: 1,
    topK: 0,
    seed,
    promptLogprobs: false,
    topPrompt: 0,
    topSampled: 0,
  },
});
export const checkpoint = (over: Partial<TinkerCheckpoint> = {}): TinkerCheckpoint => ({
  path: 'tinker://m/weights/a',
  run: 'm',
  tenant: 'ann',
  kind: 'training',
  dir: '/nowhere/a',
  bytes: 10,
  sha256: 'x',
  createdAt: at,
  public: false,
  ...over,
});
const done: TinkerResult = { kind: 'done' };

export function journalContract(name: string, make: () => JournalUnderTest): void {
  let place: JournalUnderTest;
  let journal: SqliteJournal;
  let other: SqliteJournal;
  beforeEach(async () => {
    place = make();
    [journal, other] = [place.open(), place.open()];
    await journal.putModel(model('m'));
  });
  afterEach(async () => {
    await Promise.all([journal.close(), other.close()]);
    place.remove();
  });
  const accept = (seq: number, operation: TinkerOperation = create, over: object = {}) =>
    journal.accept({ tenant: 'ann', lane: 'm', seq, digest: `d${seq}`, operation, ...over });
  const numbers = async (lane = 'm') => (await other.waiting(lane, 10)).map(({ seq }) => seq);

  describe(`the Tinker journal (${name})`, () => {
    it('keeps an operation with the bits of its arrays, each in a buffer of its own', async () => {
      await accept(0, { kind: 'pass', pass: pass(7, 8) });
      const [waiting] = await other.waiting('m', 1);
      expect(waiting?.operation).toEqual({ kind: 'pass', pass: pass(7, 8) });
      const [datum] = (waiting!.operation as { pass: TinkerPass }).pass.data;
      expect(datum!.tokens.buffer.byteLength).toBe(8);
      expect(Object.is((waiting!.operation as { pass: TinkerPass }).pass.config['clip'], -0)).toBe(true);
    });

    it('takes a repetition as the same future, and refuses another body', async () => {
      const first = await accept(0);
      const again = await other.accept({ tenant: 'ann', lane: 'm', seq: 0, digest: 'd0', operation: create });
      expect(again).toMatchObject({ requestId: first.requestId, repeated: true });
      await expect(accept(0, create, { digest: 'else' })).rejects.toMatchObject({ name: 'OperationConflict' });
      await other.finish(first.requestId, done);
      expect((await accept(0)).requestId).toBe(first.requestId);
    });

    it('gives a model the numbers in order, and holds those behind one that has not arrived', async () => {
      await accept(0);
      await accept(2);
      await accept(3);
      expect(await numbers()).toEqual([0]);
      const { requestId } = await accept(1);
      expect(await numbers()).toEqual([0, 1, 2, 3]);
      await other.finish(requestId, done);
      expect(await numbers()).toEqual([0, 2, 3]);
      const [first] = await other.waiting('m', 1);
      await other.finish(first!.requestId, done);
      expect(await numbers()).toEqual([2, 3]);
      expect(await journal.busyLanes('model', 5)).toEqual(['m']);
    });

    it('has no order between samples, and puts the tenants of a base in turns', async () => {
      for (const [id, tenant] of [
        ['x', 'ann'],
        ['y', 'bob'],
      ] as const) {
        await journal.putSampler({ id, session: 's', tenant, baseModel: 'base' });
        for (const seq of [7, 3, 5])
          await journal.accept({ tenant, lane: id, seq, digest: `${seq}`, operation: sample(seq) });
      }
      const found = await other.waitingSamples('base', 4, []);
      expect(found.map(({ tenant, seq }) => `${tenant} ${seq}`)).toEqual(['ann 7', 'bob 7', 'ann 3', 'bob 3']);
      const rest = await other.waitingSamples('base', 9, [found[0]!.requestId]);
      expect(rest.map(({ tenant }) => tenant)).toEqual(['ann', 'bob', 'ann', 'bob', 'bob']);
      expect(await numbers('x')).toEqual([3, 5, 7]);
    });

    it('keeps the first result, whoever writes it, and shows it to its tenant alone', async () => {
      const { requestId } = await accept(0);
      const results = await Promise.all([
        journal.finish(requestId, { kind: 'optim_step', gradNorm: 1 }),
        other.finish(requestId, { kind: 'optim_step', gradNorm: 2 }),
      ]);
      expect(results[0]).toEqual(results[1]);
      expect(await journal.future(requestId, 'ann')).toMatchObject({ state: 'finished', result: results[0] });
      expect(await journal.future(requestId, 'bob')).toBeUndefined();
      expect(await journal.waitFor(requestId, 'bob', 1000)).toBeUndefined();
      expect(await other.finish(requestId, done)).toEqual(results[0]);
    });

    it('wakes a wait for a result that another process writes, and ends one in time or by its signal', async () => {
      const { requestId } = await accept(0);
      const waits = [1, 2, 3].map(() => journal.waitFor(requestId, 'ann', 60_000));
      setTimeout(() => void other.finish(requestId, done), 30);
      expect((await Promise.all(waits)).map((future) => future?.state)).toEqual(['finished', 'finished', 'finished']);
      const { requestId: second } = await accept(1);
      expect(await journal.waitFor(second, 'ann', 20)).toMatchObject({ state: 'waiting' });
      const end = new AbortController();
      setTimeout(() => end.abort(), 20);
      expect(await journal.waitFor(second, 'ann', 60_000, end.signal)).toMatchObject({ state: 'waiting' });
    });

    it('writes a result and its checkpoint together, once, and replaces one of the same path', async () => {
      const [a, b] = [await accept(0), await accept(1)];
      const saved = { kind: 'saved', path: 'p', sha256: 'x', bytes: 1 } as const;
      await journal.finish(a.requestId, saved, checkpoint());
      await journal.finish(a.requestId, saved, checkpoint({ dir: '/nowhere/late' }));
      expect((await other.checkpoint('tinker://m/weights/a'))?.dir).toBe('/nowhere/a');
      await journal.finish(b.requestId, saved, checkpoint({ dir: '/nowhere/b' }));
      expect((await other.checkpoints('ann', 'm')).map(({ dir }) => dir)).toEqual(['/nowhere/b']);
      expect(await other.checkpoints('bob')).toEqual([]);
      expect(await other.deleteCheckpoint('tinker://m/weights/a')).toBe(true);
      expect(await journal.deleteCheckpoint('tinker://m/weights/a')).toBe(false);
    });

    it('hides a checkpoint when it expires, and changes when that is', async () => {
      const { requestId } = await accept(0);
      await journal.finish(requestId, done, checkpoint({ expiresAt: '2999-01-01T00:00:00.000Z' }));
      expect(await journal.setCheckpoint('tinker://m/weights/a', { expiresAt: at })).toBe(true);
      expect(await journal.checkpoint('tinker://m/weights/a')).toBeUndefined();
      expect(await journal.setCheckpoint('tinker://m/weights/a', { expiresAt: null })).toBe(false);
    });

    it('remembers what a load was accepted with, though its checkpoint is deleted before it runs', async () => {
      const { requestId } = await accept(0);
      await journal.finish(requestId, done, checkpoint());
      await accept(1, { kind: 'load_weights', path: 'tinker://m/weights/a', optimizer: true });
      await journal.deleteCheckpoint('tinker://m/weights/a');
      expect(await other.waiting('m', 1)).toMatchObject([{ seq: 1, reads: '/nowhere/a' }]);
    });

    it('lets nothing be written under a hold that another one has ended', async () => {
      const { requestId } = await accept(0);
      const late = await journal.take('m', 'one', 60_000);
      const now = await other.take('m', 'two', 60_000);
      const state = { model: 'm', through: 0, dir: '/late', bytes: 1, sha256: 'x' };
      const lost = { name: 'LaneLost' };
      await expect(journal.finishIn(late, { requestId, result: done })).rejects.toMatchObject(lost);
      await expect(journal.putState(late, state)).rejects.toMatchObject(lost);
      await expect(journal.renew(late, 1)).rejects.toMatchObject(lost);
      await expect(journal.begin(late, [requestId])).rejects.toMatchObject(lost);
      await expect(journal.leave(late)).rejects.toMatchObject(lost);
      await expect(journal.failWaiting(late, 'x')).rejects.toMatchObject(lost);
      expect(await journal.state('m')).toBeUndefined();
      expect(await other.future(requestId, 'ann')).toMatchObject({ state: 'waiting' });
      await other.finishIn(now, { requestId, result: done, state: { ...state, dir: '/now' } });
      expect(await journal.state('m')).toMatchObject({ through: 0, dir: '/now' });
    });

    it('asks for a wake-up only if nobody holds the lane, and lets no holder leave work behind', async () => {
      expect((await accept(0)).wake).toEqual({ base: 'base' });
      const hold = await other.take('m', 'one', 60_000);
      const { requestId, wake } = await accept(1);
      expect(wake).toBeUndefined();
      expect(await other.leave(hold)).toBe(false);
      for (const { requestId: one } of await other.waiting('m', 9))
        await other.finishIn(hold, { requestId: one, result: done });
      expect(await other.leave(hold)).toBe(true);
      expect((await accept(2)).wake).toEqual({ base: 'base' });
      expect(await journal.unheld()).toEqual({ models: ['m'], bases: [] });
      expect(await journal.future(requestId, 'ann')).toMatchObject({ state: 'finished' });
    });

    it('counts executions that have no end as lost, until there is a result', async () => {
      const { requestId } = await accept(0);
      const hold = await journal.take('m', 'one', 60_000);
      await journal.begin(hold, [requestId]);
      const [second] = await other.begin(hold, [requestId]);
      expect(second).toMatchObject({ lost: 1, failed: 0 });
      await other.endExecution(second!.execution, 'failed');
      const [third] = await journal.begin(hold, [requestId]);
      expect(third).toMatchObject({ lost: 1, failed: 1 });
      await journal.endExecution(third!.execution, 'forgotten');
      expect(await journal.begin(hold, [requestId])).toMatchObject([{ lost: 1, failed: 1 }]);
      await journal.finishIn(hold, { requestId, result: done });
      expect(await journal.begin(hold, [requestId])).toMatchObject([{ lost: 0, failed: 0 }]);
    });

    it('gives a rebuild what changed the model and did not fail, after its state', async () => {
      const given: Array<[TinkerOperation, TinkerResult]> = [
        [create, done],
        [
          { kind: 'pass', pass: pass(1) },
          { kind: 'pass', result: { logprobs: [], metrics: {} } },
        ],
        [
          { kind: 'pass', pass: pass(2) },
          { kind: 'failed', category: 'user', message: 'no' },
        ],
        [{ kind: 'save_weights', path: 'p', what: 'sampler', overwrite: true }, done],
        [
          { kind: 'pass', pass: pass(3) },
          { kind: 'pass', result: { logprobs: [], metrics: {} } },
        ],
      ];
      for (const [i, [operation, result]] of given.entries())
        await journal.finish((await accept(i, operation)).requestId, result);
      const after = async (n: number) => (await other.applied('m', n, 1e6)).map(({ seq }) => seq);
      expect(await after(-1)).toEqual([0, 1, 4]);
      expect(await after(1)).toEqual([4]);
      expect((await other.applied('m', -1, 1)).map(({ seq }) => seq)).toEqual([0]);
    });

    it('numbers what has no number, each anew, and gives what finished in it in the order of the results', async () => {
      const [a, b, c] = [await accept(0), await accept(4), await accept(1)];
      const asked = { tenant: 'ann', lane: 'm', seq: undefined, digest: 'same', operation: create };
      const unnumbered = await Promise.all([journal.accept(asked), other.accept(asked), journal.accept(asked)]);
      const known = await Promise.all([5, 6, 7].map((seq) => other.known('m', seq, 'same')));
      expect(unnumbered.map(({ repeated }) => repeated)).toEqual([false, false, false]);
      expect(new Set(unnumbered.map(({ requestId }) => requestId))).toEqual(
        new Set(known.map((one) => one?.requestId)),
      );
      await journal.finish(c.requestId, done);
      await other.finish(a.requestId, { kind: 'failed', category: 'user', message: 'no' });
      await other.finish(b.requestId, done);
      const [first, ...rest] = await journal.finishedOf('m', 0, 2);
      expect([first, ...rest]).toMatchObject([
        { requestId: c.requestId, failed: false },
        { requestId: a.requestId, failed: true },
      ]);
      expect((await journal.finishedOf('m', rest[0]!.cursor, 9)).map(({ requestId }) => requestId)).toEqual([
        b.requestId,
      ]);
      expect(await journal.finishedOf('x', 0, 9)).toEqual([]);
    });

    it('counts what a tenant has', async () => {
      const { requestId } = await accept(0);
      await accept(1);
      await journal.finish(requestId, done, checkpoint());
      expect(await other.counts('ann')).toMatchObject({
        waitingOperations: 1,
        models: 1,
        checkpoints: 1,
        checkpointBytes: 10,
      });
      expect(await other.counts('bob')).toMatchObject({ waitingOperations: 0, models: 0, checkpoints: 0 });
    });

    it('keeps sessions of a tenant, the newest first, and the first reason of their end', async () => {
      for (const id of ['a', 'b'])
        await journal.putSession({ id, tenant: 'ann', tags: ['t'], createdAt: at, seenAt: at, userMetadata: { k: 1 } });
      await journal.seen('a', '2026-02-01T00:00:00.000Z');
      await journal.seen('a', '2026-01-02T00:00:00.000Z');
      await journal.finishSession('a', { type: 'success' });
      await other.finishSession('a', { type: 'errored' });
      expect(await other.sessions('ann', { limit: 1, offset: 1 })).toEqual([
        {
          id: 'a',
          tenant: 'ann',
          tags: ['t'],
          createdAt: at,
          seenAt: '2026-02-01T00:00:00.000Z',
          userMetadata: { k: 1 },
          finished: { type: 'success' },
        },
      ]);
      expect(await other.sessions('bob', { limit: 9, offset: 0 })).toEqual([]);
    });

    it('keeps the first model and sampler of an id', async () => {
      expect((await other.putModel(model('m', { tenant: 'bob' }))).tenant).toBe('ann');
      await journal.putSampler({ id: 'x', session: 's', tenant: 'ann', baseModel: 'base' });
      expect((await other.putSampler({ id: 'x', session: 's', tenant: 'bob', baseModel: 'b' })).tenant).toBe('ann');
      expect((await other.samplers('s')).map(({ id }) => id)).toEqual(['x']);
      expect(await other.pinKind('m', 'k1')).toBe('k1');
      expect(await journal.pinKind('m', 'k2')).toBe('k1');
    });

    it('refuses an operation of a model or a sampler that is not there', async () => {
      await expect(accept(0, create, { lane: 'nobody' })).rejects.toThrow('no model nobody');
      await expect(accept(0, sample(1))).rejects.toThrow('no sampler m');
    });
  });
}
