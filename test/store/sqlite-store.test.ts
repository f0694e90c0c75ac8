import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Lease, RolloutEvent, Store } from '../../store/store.ts';

let dir: string;
let store: Store;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-store-'));
  store = openSqliteStore(dir);
});
afterEach(async () => {
  await store.close();
  rmSync(dir, { recursive: true });
});

const lease = (id: string, expiresAt: number): Lease => ({
  id,
  kind: 'sandbox',
  owner: 'r',
  host: 'h',
  expiresAt,
  detail: '',
});

describe('results', () => {
  it('keeps the first value, also against another connection', async () => {
    const other = openSqliteStore(dir);
    expect(await store.putOnce('k', { a: 1 })).toEqual({ a: 1 });
    expect(await other.putOnce('k', { a: 2 })).toEqual({ a: 1 });
    expect(await store.get('k')).toEqual({ a: 1 });
    await other.close();
  });

  it('lists only keys with the prefix, in byte order', async () => {
    for (const key of ['a/2', 'a/10', 'b/1', 'a']) await store.putOnce(key, key);
    expect((await store.list('a/')).map((r) => r.key)).toEqual(['a/10', 'a/2']);
  });
});

describe('objects', () => {
  it('are named by their bytes and refuse damage', async () => {
    const ref = await store.putObject(Buffer.from('hello'));
    expect(ref).toBe('sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824');
    expect(Buffer.from(await store.getObject(ref)).toString()).toBe('hello');
    const db = new DatabaseSync(join(dir, 'store.sqlite'));
    db.prepare('UPDATE objects SET bytes = ?').run(Buffer.from('hellO'));
    db.close();
    await expect(store.getObject(ref)).rejects.toThrow(/damaged/);
  });

  /** Why: objects are deleted through the records that name them, so nothing would ever delete this one. */
  it('are not stored if the key exists already', async () => {
    const first = await store.putOnceWithObject('k', Buffer.from('first'), (ref) => ({ ref }));
    const late = store.putOnceWithObject('k', Buffer.from('late'), (ref) => ({ ref }));
    expect(await late).toEqual(first);
    const db = new DatabaseSync(join(dir, 'store.sqlite'));
    expect(db.prepare('SELECT ref FROM objects').all()).toEqual([{ ref: first.ref }]);
    db.close();
  });
});

describe('events and executions', () => {
  const event = (over: Partial<RolloutEvent>): RolloutEvent => ({
    run: 'run',
    rollout: 'x',
    attempt: 1,
    event: 'started',
    at: '2026-01-01T00:00:00.000Z',
    ...over,
  });

  it('keeps a repeated report of one event once, and two different ones twice', async () => {
    await store.append([event({}), event({ at: '2026-01-02T00:00:00.000Z' })]);
    await store.append([event({ event: 'trained', detail: 'v1' }), event({ event: 'trained', detail: 'v2' })]);
    expect((await store.events('run')).map((e) => [e.event, e.detail])).toEqual([
      ['started', undefined],
      ['trained', 'v1'],
      ['trained', 'v2'],
    ]);
    expect(await store.events('other')).toEqual([]);
  });

  it('counts repeated executions by kind', async () => {
    expect(await store.begin('model:a')).toBe(1);
    expect(await store.begin('model:a')).toBe(2);
    expect(await store.begin('model:b')).toBe(1);
    expect(await store.begin('tool:a')).toBe(1);
    expect(await store.repeats()).toEqual({ model: 1, tool: 0 });
    expect([await store.begun('model:a'), await store.begun('model:c')]).toEqual([2, 0]);
  });

  it('lists executions in order, after any of them', async () => {
    for (const key of ['model:a', 'tool:a', 'model:a']) await store.begin(key);
    const all = await store.executions(0);
    expect(all.map(({ key }) => key)).toEqual(['model:a', 'tool:a', 'model:a']);
    expect(await store.executions(all[0]!.seq)).toEqual(all.slice(1));
    expect(await store.executions(all[2]!.seq)).toEqual([]);
  });
});

describe('leases', () => {
  it('never exceed the limit, are renewed by their holder, and end by release or time', async () => {
    const later = Date.now() + 60_000;
    expect(await store.acquireLease(lease('a', later), 2)).toBeDefined();
    expect(await store.acquireLease(lease('b', later), 2)).toBeDefined();
    expect(await store.acquireLease(lease('c', later), 2)).toBeUndefined();
    expect(await store.acquireLease(lease('a', later + 1), 2)).toBeDefined();
    await store.releaseLease('b');
    expect(await store.acquireLease(lease('c', Date.now() - 1), 2)).toBeDefined();
    expect(await store.acquireLease(lease('d', later), 2)).toBeDefined();
    expect((await store.leases('sandbox')).map((l) => l.id)).toEqual(['a', 'c', 'd']);
  });

  it('of several are taken all or none, by number and by memory', async () => {
    const later = Date.now() + 60_000;
    const room = { leases: 3, memoryMiB: 100 };
    const some = (ids: readonly string[], memoryMiB: number) => ids.map((id) => ({ ...lease(id, later), memoryMiB }));
    const taken = async () => (await store.leases('sandbox')).map((l) => [l.id, l.memoryMiB]);
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
});
