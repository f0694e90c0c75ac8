/** The contract, for SQLite; what its file shows when it is damaged; and what it forgets, and when. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { TinkerOperation, TinkerResult } from '../../../protocol/tinker.ts';
import { SqliteJournal, tinkerFolder } from '../../../store/tinker/sqlite-journal.ts';
import { RETENTION } from '../../../store/tinker/sqlite-retention.ts';
import { checkpoint, create, journalContract, model, pass, sample } from './contract.ts';

const makeDir = () => mkdtempSync(join(tmpdir(), 'longhaul-journal-'));

journalContract('sqlite', () => {
  const dir = makeDir();
  return { open: () => new SqliteJournal(dir, undefined), remove: () => rmSync(dir, { recursive: true }) };
});

let dir: string;
let journal: SqliteJournal;
beforeEach(async () => {
  dir = makeDir();
  journal = new SqliteJournal(dir, undefined);
  await journal.putModel(model('m'));
});
afterEach(async () => {
  await journal.close();
  rmSync(dir, { recursive: true });
});
const accept = (seq: number, operation: TinkerOperation = create) =>
  journal.accept({ tenant: 'ann', lane: 'm', seq, digest: `d${seq}`, operation });
const raw = (sql: string) => {
  const db = new DatabaseSync(join(dir, 'journal.sqlite'));
  const rows = db.prepare(sql).all();
  db.close();
  return rows;
};
const done: TinkerResult = { kind: 'done' };
const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

it('a damaged operation, result or record is never given out', async () => {
  const { requestId } = await accept(0);
  await journal.finish((await accept(1)).requestId, done);
  raw("UPDATE operations SET body = replace(body, 'base', 'bAse') WHERE number = 0");
  await expect(journal.waiting('m', 1)).rejects.toMatchObject({ name: 'StoreCorrupt', key: `operation ${requestId}` });
  raw("UPDATE results SET body = x'00'");
  const [row] = raw('SELECT request FROM operations WHERE number = 1');
  await expect(journal.future(String(row?.['request']), 'ann')).rejects.toMatchObject({ name: 'StoreCorrupt' });
  raw("UPDATE models SET value = replace(value, 'ann', 'bob')");
  await expect(journal.model('m')).rejects.toMatchObject({ name: 'StoreCorrupt', key: 'model m' });
});

it('a file of another format is refused', () => {
  raw('PRAGMA user_version=7');
  expect(() => new SqliteJournal(dir, undefined)).toThrow('format 7');
});

it('what is acknowledged is in the file, whatever becomes of the process then', async () => {
  const { requestId } = await accept(0);
  expect(raw('SELECT request FROM operations')).toEqual([{ request: requestId }]);
  await journal.finish(requestId, done);
  expect(raw('SELECT request FROM results')).toEqual([{ request: requestId }]);
});

it('another process that waits is woken by the write, without a poll', async () => {
  const { requestId } = await accept(0);
  const other = new SqliteJournal(dir, undefined);
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  const waits = other.waitFor(requestId, 'ann', MINUTE, new AbortController().signal);
  await journal.finish(requestId, done);
  expect(await waits).toMatchObject({ state: 'finished' });
  vi.useRealTimers();
  await other.close();
});

it('another process that waits polls where the file that is touched is gone', async () => {
  const { requestId } = await accept(0);
  rmSync(join(dir, 'changed'));
  mkdirSync(join(dir, 'changed'));
  const other = new SqliteJournal(dir, undefined);
  const waits = other.waitFor(requestId, 'ann', MINUTE, new AbortController().signal);
  await journal.finish(requestId, done);
  expect(await waits).toMatchObject({ state: 'finished' });
  await other.close();
});

it('counts what of a tenant waits', async () => {
  const { requestId } = await accept(0);
  await accept(1);
  const { waitingOperations, waitingBytes } = await journal.counts('ann');
  expect(await journal.waitingOf('ann')).toMatchObject({ waitingOperations, waitingBytes });
  expect([waitingOperations, (await journal.waitingOf('bob')).waitingOperations]).toEqual([2, 0]);
  await journal.finish(requestId, done);
  expect((await journal.waitingOf('ann')).waitingOperations).toBe(1);
});

it('writes of one turn fail alone', async () => {
  await accept(0);
  const conflict = journal.accept({ tenant: 'ann', lane: 'm', seq: 0, digest: 'else', operation: create });
  const [failed, next] = await Promise.allSettled([conflict, accept(1)]);
  expect([failed.status, next.status]).toEqual(['rejected', 'fulfilled']);
});

it('forgets results after their time, and knows their repetition still', async () => {
  const { requestId } = await accept(0);
  await journal.finish(requestId, done);
  await journal.keepHouse(Date.now() + RETENTION.resultMs - MINUTE);
  expect(await journal.future(requestId, 'ann')).toMatchObject({ state: 'finished' });
  await journal.keepHouse(Date.now() + RETENTION.resultMs + MINUTE);
  expect(await journal.future(requestId, 'ann')).toBeUndefined();
  expect(await accept(0)).toMatchObject({ requestId, repeated: true });
});

it('keeps the bodies that a rebuild needs, and no others', async () => {
  const bodies = () =>
    raw('SELECT number FROM operations WHERE body IS NOT NULL ORDER BY number').map((r) => r['number']);
  const operations: TinkerOperation[] = [
    create,
    { kind: 'pass', pass: pass(1) },
    { kind: 'save_weights', path: 'p', what: 'sampler', overwrite: true },
    { kind: 'pass', pass: pass(2) },
  ];
  for (const [i, operation] of operations.entries()) await journal.finish((await accept(i, operation)).requestId, done);
  await accept(4);
  await journal.keepHouse();
  expect(bodies()).toEqual([0, 1, 3, 4]);
  const hold = await journal.take('m', 'one', MINUTE);
  await journal.putState(hold, { model: 'm', through: 1, dir: '/s', bytes: 1, sha256: 'x' });
  await journal.keepHouse();
  expect(bodies()).toEqual([3, 4]);
  expect((await journal.applied('m', 1, 1e6)).map(({ seq }) => seq)).toEqual([3]);
});

it('removes the directory of a deleted or expired checkpoint when nothing waits for it', async () => {
  const dirs = ['a', 'b'].map((name) => join(dir, 'checkpoints', name));
  for (const one of dirs) mkdirSync(one, { recursive: true });
  await journal.finish(
    (await accept(0)).requestId,
    done,
    checkpoint({ dir: dirs[0]!, expiresAt: new Date(Date.now() + DAY).toISOString() }),
  );
  const path = 'tinker://m/weights/b';
  await journal.finish((await accept(1)).requestId, done, checkpoint({ path, dir: dirs[1]! }));
  const load = await accept(2, { kind: 'load_weights', path, optimizer: false });
  await journal.deleteCheckpoint(path);
  await journal.keepHouse(Date.now() + 2 * MINUTE);
  expect(dirs.map((one) => existsSync(one))).toEqual([true, true]);
  await journal.finish(load.requestId, done);
  await journal.keepHouse(Date.now() + 2 * MINUTE);
  expect(dirs.map((one) => existsSync(one))).toEqual([true, false]);
  await journal.keepHouse(Date.now() + DAY + MINUTE);
  await journal.keepHouse(Date.now() + DAY + 3 * MINUTE);
  expect(dirs.map((one) => existsSync(one))).toEqual([false, false]);
});

it('removes what a killed writer left, after half a day', async () => {
  const left = join(dir, 'states', 'left');
  mkdirSync(left, { recursive: true });
  await journal.keepHouse();
  expect(existsSync(left)).toBe(true);
  utimesSync(left, new Date(Date.now() - DAY), new Date(Date.now() - DAY));
  await journal.keepHouse(Date.now() + 61 * MINUTE);
  expect(existsSync(left)).toBe(false);
});

it('fails what cannot move: behind a number that never came, or in a lane that nobody drains', async () => {
  const [first, behind] = [await accept(0), await accept(2)];
  expect(await journal.keepHouse(Date.now() + RETENTION.gapMs + MINUTE)).toBe(0);
  await journal.finish(first.requestId, done);
  expect(await journal.keepHouse(Date.now() + RETENTION.gapMs + MINUTE)).toBe(1);
  expect(await journal.future(behind.requestId, 'ann')).toMatchObject({
    result: { kind: 'failed', category: 'server', message: expect.stringContaining('request 1 of m has not arrived') },
  });
  const next = await accept(1);
  expect((await journal.waiting('m', 9)).map(({ seq }) => seq)).toEqual([1]);
  expect(await journal.keepHouse(Date.now() + RETENTION.stalledMs + MINUTE)).toBe(1);
  expect(await journal.future(next.requestId, 'ann')).toMatchObject({
    result: { category: 'server', message: expect.stringContaining('no GPU worker') },
  });
});

it('removes the state of a model that nobody has used for long', async () => {
  await journal.finish((await accept(0)).requestId, done);
  const hold = await journal.take('m', 'one', MINUTE);
  await journal.putState(hold, { model: 'm', through: 0, dir: join(dir, 'states', 'm'), bytes: 1, sha256: 'x' });
  const later = Date.now() + RETENTION.modelMs + DAY;
  await journal.keepHouse(later);
  await journal.keepHouse(later + 60 * MINUTE);
  expect(await journal.state('m')).toBeUndefined();
  expect(await journal.ended('m')).toContain('not used for 30 days');
});

it('is beside the store', () => {
  expect(tinkerFolder('sqlite:/home/store')).toBe('/home/store/tinker');
});

it('nothing that is done often reads the whole history', async () => {
  const prepare = vi.spyOn(DatabaseSync.prototype, 'prepare');
  const other = new SqliteJournal(dir, undefined);
  try {
    await other.finish((await accept(0)).requestId, done);
    await other.accept({ tenant: 'ann', lane: 'm', seq: 1, digest: 'd1', operation: create });
    const old = join(dir, 'states', 'old');
    mkdirSync(old, { recursive: true });
    utimesSync(old, 1, 1);
    await other.keepHouse();
    expect(existsSync(old)).toBe(false);
    await other.counts('ann');
  } finally {
    await other.close();
  }
  const asked = prepare.mock.calls.map(([sql]) => sql).filter((sql) => /^\s*(SELECT|UPDATE|DELETE|INSERT)/.test(sql));
  prepare.mockRestore();
  expect(asked.length).toBeGreaterThan(15);
  const scans = asked.flatMap((sql) =>
    raw(`EXPLAIN QUERY PLAN ${sql}`)
      .map(({ detail }) => String(detail))
      // What is open or kept is little, and has indices of its own.
      .filter((step) => /^SCAN (operations|results|checkpoints|states|lanes)\b(?!.* INDEX (open|kept))/.test(step))
      .map((step) => `${step}: ${sql}`),
  );
  expect(scans).toEqual([]);
});

it('models that failed to be made, or of finished sessions, do not count for ever', async () => {
  const session = { id: 's', tenant: 'ann', tags: [], createdAt: '2026', seenAt: '2026' };
  await journal.putSession(session);
  await journal.putSession({ ...session, id: 't' });
  await journal.putModel({ ...model('n'), session: 't' });
  const { requestId } = await accept(0);
  await journal.finish(requestId, { kind: 'failed', category: 'user', message: 'no' });
  expect((await journal.counts('ann')).models).toBe(2);
  await journal.finishSession('t', { type: 'success' });
  expect((await journal.counts('ann')).models).toBe(1);
  const later = Date.now() + RETENTION.modelMs + DAY;
  await journal.keepHouse(later);
  // The server was not there: nobody could use it.
  expect(await journal.ended('m')).toBeUndefined();
  await journal.keepHouse(later + 60 * MINUTE);
  expect((await journal.counts('ann')).models).toBe(0);
  expect(await journal.ended('m')).toMatch(/not used for 30 days/);
});

it('a damaged operation fails alone, and what waits beside it runs', async () => {
  const [damaged, next] = [await accept(0), await accept(1)];
  raw("UPDATE operations SET body = replace(body, 'base', 'bAse') WHERE number = 0");
  expect((await journal.waitingIn('m', 9, 1_000_000)).map(({ requestId }) => requestId)).toEqual([next.requestId]);
  expect(await journal.future(damaged.requestId, 'ann')).toMatchObject({
    result: { kind: 'failed', category: 'server', message: expect.stringContaining('damaged') },
  });
});

it('a session without a sign of life ends; one whose model is used or that has work does not', async () => {
  const now = Date.now();
  const old = new Date(now - RETENTION.silentMs - MINUTE).toISOString();
  for (const id of ['silent', 'heard', 'used', 'busy'])
    await journal.putSession({
      id,
      tenant: 'ann',
      tags: [],
      createdAt: old,
      seenAt: id === 'heard' ? new Date(now).toISOString() : old,
    });
  await journal.putModel(model('silent:train:0', { session: 'silent', usedAt: old }));
  await journal.putModel(model('used:train:0', { session: 'used' }));
  await journal.putSampler({ id: 'busy:sample:0', session: 'busy', tenant: 'ann', baseModel: 'base' });
  await journal.accept({ tenant: 'ann', lane: 'busy:sample:0', seq: 0, digest: 'd', operation: sample(1) });
  await journal.putSession({ id: 'direct-1', tenant: 'ann', tags: [], createdAt: old, seenAt: old });
  expect((await journal.counts('ann')).sessions).toBe(4);
  const listed = await journal.sessions('ann', { limit: 10, offset: 0 });
  expect(listed.map(({ id }) => id)).toEqual(['busy', 'used', 'heard', 'silent']);
  const ended = () =>
    Promise.all(['silent', 'heard', 'used', 'busy'].map(async (id) => (await journal.session(id))?.finished));
  await journal.keepHouse(now);
  // The server may have been down: nobody could be heard.
  expect(await ended()).toEqual([undefined, undefined, undefined, undefined]);
  await journal.keepHouse(now + 60 * MINUTE);
  await journal.keepHouse(now + 62 * MINUTE);
  expect(await journal.ended('silent:train:0')).toBeUndefined();
  expect(await ended()).toEqual([
    { type: 'interrupted', detail: 'there was no heartbeat for 24 hours' },
    undefined,
    undefined,
    undefined,
  ]);
  expect((await journal.counts('ann')).sessions).toBe(3);
});

it("the states of a finished session's models go after a day, the session itself after 30, if it has no checkpoint", async () => {
  const [now, createdAt] = [Date.now(), new Date().toISOString()];
  for (const id of ['a', 'kept']) {
    await journal.putSession({ id, tenant: 'ann', tags: [], createdAt, seenAt: createdAt });
    await journal.putModel(model(`${id}:train:0`, { session: id }));
    await journal.putSampler({ id: `${id}:sample:0`, session: id, tenant: 'ann', baseModel: 'base' });
    const hold = await journal.take(`${id}:train:0`, 'w', 1000);
    await journal.putState(hold, {
      model: `${id}:train:0`,
      through: 0,
      dir: join(dir, 'states', id),
      bytes: 1,
      sha256: 'x',
    });
    await journal.finishSession(id, { type: 'success' });
  }
  const { requestId } = await journal.accept({
    tenant: 'ann',
    lane: 'kept:train:0',
    seq: 0,
    digest: 'd',
    operation: create,
  });
  await journal.finish(requestId, done, checkpoint({ path: 'tinker://kept:train:0/weights/a', run: 'kept:train:0' }));
  await journal.keepHouse(now + RETENTION.finishedModelMs - MINUTE);
  expect(await journal.state('a:train:0')).toBeDefined();
  await journal.keepHouse(now + RETENTION.finishedModelMs + 2 * MINUTE);
  expect([await journal.state('a:train:0'), await journal.state('kept:train:0')]).toEqual([undefined, undefined]);
  expect(await journal.ended('a:train:0')).toContain('its session is finished');
  expect(await journal.session('a')).toBeDefined();
  await journal.keepHouse(now + RETENTION.sessionMs + 2 * MINUTE);
  const records = async (id: string) => [
    await journal.session(id),
    await journal.model(`${id}:train:0`),
    await journal.sampler(`${id}:sample:0`),
  ];
  expect(await records('a')).toEqual([undefined, undefined, undefined]);
  // Its checkpoint is loaded by what its model says.
  expect((await records('kept')).every((one) => one !== undefined)).toBe(true);
});
