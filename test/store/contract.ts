/**
 * The contract of a store: every implementation runs these tests. They hunt an implementation under which two attempts
 * of one call both count, a limit is exceeded, or a record is lost or changed. Not asserted: how an implementation
 * keeps its data; its own tests damage that.
 */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Lease, RolloutEvent, Store, WorkerReport } from '../../store/store.ts';

export interface StoreUnderTest {
  /** Opens the same store again: the first call makes it. */
  readonly open: () => Promise<Store>;
  /** Removes it. */
  readonly remove: () => Promise<void>;
}

const event = (over: Partial<RolloutEvent> = {}): RolloutEvent => ({
  run: 'run',
  rollout: 'x',
  attempt: 1,
  event: 'started',
  at: '2026-01-01T00:00:00.000Z',
  ...over,
});

const lease = (id: string, expiresAt: number, over: Partial<Lease> = {}): Lease => ({
  id,
  kind: 'sandbox',
  owner: 'r',
  host: 'h',
  expiresAt,
  detail: '',
  ...over,
});

const worker = (id: string, seen: string): WorkerReport => ({
  id,
  role: 'init',
  host: 'h',
  pid: 7,
  build: 'b',
  queues: ['init'],
  since: '2026-01-01T00:00:00.000Z',
  seen,
});

/** The tests of everything that one process sees. */
export function storeContract(name: string, make: () => StoreUnderTest): void {
  let place: StoreUnderTest;
  let store: Store;
  beforeEach(async () => {
    place = make();
    store = await place.open();
  });
  afterEach(async () => {
    await store.close();
    await place.remove();
  });

  describe(`${name}: results`, () => {
    it('keep the first value', async () => {
      expect(await store.putOnce('k', { a: 1 })).toEqual({ a: 1 });
      expect(await store.putOnce('k', { a: 2 })).toEqual({ a: 1 });
      expect([await store.get('k'), await store.get('other')]).toEqual([{ a: 1 }, undefined]);
    });

    it('list only keys with the prefix, in byte order', async () => {
      for (const key of ['a/2', 'a/10', 'b/1', 'a', 'A/3', 'a/%', 'a0']) await store.putOnce(key, key);
      expect((await store.list('a/')).map((one) => one.key)).toEqual(['a/%', 'a/10', 'a/2']);
      expect(await store.list('c')).toEqual([]);
    });

    it('are what was written: any JSON, of any size, and null, but not undefined', async () => {
      const big = { text: 'ä\u0000\ud83d\ude00'.repeat(300_000), ids: Array.from({ length: 100_000 }, (_, i) => i) };
      await store.putOnce('big', big);
      expect(await store.get('big')).toEqual(big);
      let n = 0;
      await fc.assert(
        fc.asyncProperty(fc.jsonValue(), async (value) => {
          n += 1;
          await store.putOnce(`json/${n}`, value);
          expect(JSON.stringify(await store.get(`json/${n}`))).toBe(JSON.stringify(value));
        }),
        { numRuns: 100 },
      );
      await expect(store.putOnce('none', undefined)).rejects.toThrow(TypeError);
      expect(await store.get('none')).toBeUndefined();
    });
  });

  describe(`${name}: objects`, () => {
    const text = async (ref: Parameters<Store['getObject']>[0]) => Buffer.from(await store.getObject(ref)).toString();

    it('are named by the SHA-256 of their bytes, and stored once', async () => {
      const ref = await store.putObject(Buffer.from('hello'));
      expect(ref).toBe('sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824');
      expect([await store.putObject(Buffer.from('hello')), await text(ref)]).toEqual([ref, 'hello']);
      const large = Buffer.alloc(3_000_000, 7);
      expect(Buffer.from(await store.getObject(await store.putObject(large))).equals(large)).toBe(true);
    });

    it('that are missing are damage', async () => {
      const gone = `sha256:${'0'.repeat(64)}` as const;
      await expect(store.getObject(gone)).rejects.toMatchObject({ name: 'StoreCorrupt', key: gone });
    });

    /** Why: objects are deleted through the records that name them, so nothing would ever delete this one. */
    it('are not stored if the key of their record exists already', async () => {
      const first = await store.putOnceWithObject('k', Buffer.from('first'), (ref) => ({ ref }));
      expect(await store.putOnceWithObject('k', Buffer.from('late'), (ref) => ({ ref }))).toEqual(first);
      expect(await text(first.ref)).toBe('first');
      const late = createHash('sha256').update('late').digest('hex');
      await expect(store.getObject(`sha256:${late}`)).rejects.toMatchObject({ name: 'StoreCorrupt' });
    });
  });

  describe(`${name}: events`, () => {
    it('of a run come in the order in which they were appended, each once', async () => {
      await store.append([event(), event({ at: '2026-01-02T00:00:00.000Z' })]);
      await store.append([event({ event: 'trained', detail: 'v1' }), event({ event: 'trained', detail: 'v2' })]);
      await store.append([
        event({ run: 'other', rollout: 'y' }),
        event({ attempt: 2, at: '2025-01-01T00:00:00.000Z' }),
      ]);
      expect((await store.events('run')).map((e) => [e.event, e.attempt, e.at.slice(0, 4), e.detail])).toEqual([
        ['started', 1, '2026', undefined],
        ['trained', 1, '2026', 'v1'],
        ['trained', 1, '2026', 'v2'],
        ['started', 2, '2025', undefined],
      ]);
      expect(await store.events('none')).toEqual([]);
    });

    it('are read on from where an earlier call ended', async () => {
      await store.append([event(), event({ run: 'other', rollout: 'y' })]);
      const first = await store.eventsSince('run', 0);
      expect(first.events).toEqual([event()]);
      expect((await store.eventsSince('run', first.last)).events).toEqual([]);
      await store.append([event({ event: 'turn', detail: '1' })]);
      expect((await store.eventsSince('run', first.last)).events).toEqual([event({ event: 'turn', detail: '1' })]);
    });
  });

  describe(`${name}: executions`, () => {
    it('are counted by key, and repeats by kind', async () => {
      const counts: number[] = [];
      for (const key of ['model:a', 'model:a', 'model:b', 'tool:a']) counts.push(await store.begin(key));
      expect(counts).toEqual([1, 2, 1, 1]);
      expect(await store.repeats()).toEqual({ model: 1, tool: 0 });
      expect([await store.begun('model:a'), await store.begun('model:c')]).toEqual([2, 0]);
    });

    it('are listed in order, after any of them', async () => {
      for (const key of ['model:a', 'tool:a', 'model:a']) await store.begin(key);
      const all = await store.executions(0);
      expect(all.map(({ key }) => key)).toEqual(['model:a', 'tool:a', 'model:a']);
      expect(await store.executions(all[0]!.seq)).toEqual(all.slice(1));
      expect(await store.executions(all[2]!.seq)).toEqual([]);
    });
  });

  describe(`${name}: leases`, () => {
    it('never exceed the limit, are renewed by their holder, and end by release or time', async () => {
      const later = Date.now() + 60_000;
      expect(await store.acquireLease(lease('a', later), 2)).toBeDefined();
      expect(await store.acquireLease(lease('b', later), 2)).toBeDefined();
      expect(await store.acquireLease(lease('c', later), 2)).toBeUndefined();
      expect(await store.acquireLease(lease('a', later + 1), 2)).toMatchObject({ expiresAt: later + 1 });
      await store.releaseLease('b');
      expect(await store.acquireLease(lease('c', Date.now() - 1), 2)).toBeDefined();
      expect(await store.acquireLease(lease('d', later), 2)).toBeDefined();
      expect((await store.leases('sandbox')).map(({ id }) => id)).toEqual(['a', 'c', 'd']);
    });

    it('of several are taken all or none, by number and by memory', async () => {
      const later = Date.now() + 60_000;
      const room = { leases: 3, memoryMiB: 100 };
      const some = (ids: readonly string[], memoryMiB: number) => ids.map((id) => lease(id, later, { memoryMiB }));
      const taken = async () => (await store.leases('sandbox')).map((one) => [one.id, one.memoryMiB]);
      expect(await store.acquireLeases(some(['a', 'b'], 30), room)).toBe(true);
      expect(await store.acquireLeases(some(['c', 'd'], 1), room)).toBe(false);
      expect(await store.acquireLeases(some(['c'], 41), room)).toBe(false);
      expect(await taken()).toEqual([
        ['a', 30],
        ['b', 30],
      ]);
      expect(await store.acquireLeases(some(['c'], 40), room)).toBe(true);
      // Renewed together, and alone without a word on memory.
      expect(await store.acquireLeases(some(['a', 'b'], 30), room)).toBe(true);
      expect(await store.acquireLease(lease('a', later + 1), 3)).toBeDefined();
      expect(await taken()).toEqual([
        ['a', 30],
        ['b', 30],
        ['c', 40],
      ]);
      await store.releaseLease('b');
      expect(await store.acquireLeases(some(['d'], 30), room)).toBe(true);
    });

    it('of other hosts and kinds do not count', async () => {
      const later = Date.now() + 60_000;
      await store.acquireLease(lease('a', later), 1);
      expect(await store.acquireLease(lease('b', later, { host: 'other' }), 1)).toBeDefined();
      expect(await store.acquireLease(lease('c', later, { kind: 'warm' }), 1)).toBeDefined();
      expect((await store.leases('warm')).map(({ id }) => id)).toEqual(['c']);
    });
  });

  describe(`${name}: changes`, () => {
    const values = ['kept'];

    it('are everything that was written after the cursor, each once and in order, page by page', async () => {
      const written = { records: [] as string[], events: [] as string[], executions: [] as string[] };
      const seen = { records: [] as string[], events: [] as string[], executions: [] as string[] };
      let cursor: string | undefined;
      let n = 0;
      const part = fc.record({
        what: fc.array(fc.constantFrom('record', 'event', 'execution'), { maxLength: 8 }),
        limit: fc.integer({ min: 1, max: 4 }),
      });
      await fc.assert(
        fc.asyncProperty(part, async ({ what, limit }) => {
          for (const one of what) {
            n += 1;
            if (one === 'record') await store.putOnce(`kept:${n}`, { n });
            if (one === 'event') await store.append([event({ detail: String(n) })]);
            if (one === 'execution') await store.begin(`model:${n}`);
            written[`${one as 'record'}s`].push(String(n));
          }
          for (let more = true; more;) {
            const page = (await store.changes(cursor, limit, values))!;
            seen.records.push(...page.records.map(({ value }) => String((value as { n: number }).n)));
            seen.events.push(...page.events.map(({ detail }) => detail!));
            seen.executions.push(...page.executions.map(({ key }) => key.slice(6)));
            expect(page.damaged).toEqual([]);
            ({ cursor, more } = page);
          }
          expect(seen).toEqual(written);
        }),
        { numRuns: 40 },
      );
    });

    it('have the times of records, and values only of the kinds that were requested', async () => {
      const before = new Date().toISOString();
      await store.putOnce('kept:1', { a: 1 });
      await store.putOnce('large:1', 'x'.repeat(1000));
      const { records } = (await store.changes(undefined, 10, values))!;
      expect(records.map(({ at: _at, ...one }) => one)).toEqual([
        { key: 'kept:1', value: { a: 1 } },
        { key: 'large:1' },
      ]);
      for (const { at } of records) expect([before, at, new Date().toISOString()].toSorted()[1]).toBe(at);
    });

    it('are refused for a cursor of another store', async () => {
      const other = make();
      const elsewhere = await other.open();
      try {
        const { cursor } = (await elsewhere.changes(undefined, 1, values))!;
        expect(await store.changes(cursor, 1, values)).toBeUndefined();
      } finally {
        await elsewhere.close();
        await other.remove();
      }
    });
  });

  describe(`${name}: workers`, () => {
    it('are there as they last reported, until they are removed or silent for a day', async () => {
      await store.reportWorker(worker('b', '2026-01-02T00:00:00.000Z'));
      await store.reportWorker(worker('a', '2026-01-02T00:00:01.000Z'));
      await store.reportWorker(worker('b', '2026-01-02T00:00:05.000Z'));
      expect((await store.workers()).map(({ id, seen }) => [id, seen.slice(17, 19)])).toEqual([
        ['a', '01'],
        ['b', '05'],
      ]);
      await store.reportWorker(worker('c', '2026-01-03T00:00:03.000Z'));
      expect((await store.workers()).map(({ id }) => id)).toEqual(['b', 'c']);
      await store.removeWorker('b');
      expect(await store.workers()).toEqual([worker('c', '2026-01-03T00:00:03.000Z')]);
    });
  });
}
