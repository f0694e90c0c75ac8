/**
 * Hunts a changed digit in the store's file that is read as if it were right, and a row under another row's key. SQLite
 * notices neither: its own check of the file finds nothing.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import { changeOnDisk } from './change-on-disk.ts';

let dir: string;
let store: Store;
let object: ObjectRef;
const event = {
  run: 'r',
  rollout: 'train/r/step-1/t/0',
  attempt: 1,
  event: 'turn',
  at: '2026-01-01T00:00:00.000Z',
  detail: 'turn-41',
} as const;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-rows-'));
  const written = openSqliteStore(dir);
  await written.putOnce('a/1', { reward: 0.25, text: 'the first' });
  await written.putOnce('a/2', { reward: 0.75, text: 'the other' });
  await written.putOnce('b/1', 'whole');
  object = await written.putObject(Buffer.from('object 1234'));
  await written.append([event, { ...event, run: 'other' }]);
  await written.begin('model:k-17');
  await written.close();
});
afterEach(async () => {
  await store.close();
  rmSync(dir, { recursive: true });
});

/** The store with these changes in its file, which SQLite does not notice. */
function changed(...changes: ReadonlyArray<readonly [from: string, to: string]>): Store {
  changeOnDisk(dir, ...changes);
  const raw = new DatabaseSync(join(dir, 'store.sqlite'));
  expect(raw.prepare('PRAGMA quick_check').all()).toEqual([{ quick_check: 'ok' }]);
  raw.close();
  store = openSqliteStore(dir);
  return store;
}

const damaged = (key: string, what = `the record ${key} is not what was written`) => ({
  name: 'StoreCorrupt',
  key,
  message: expect.stringContaining(what) as string,
});

it('a changed digit of a value is found by every read of it, and reported with key and remedy; other rows are read', async () => {
  const opened = changed(['0.25', '0.26']);
  await expect(opened.get('a/1')).rejects.toMatchObject(damaged('a/1'));
  await expect(opened.get('a/1')).rejects.toThrow(
    /stop the stack, and restore store\.sqlite from a copy, or start a run with another name .*doctor --store/,
  );
  await expect(opened.list('a/')).rejects.toMatchObject(damaged('a/1'));
  await expect(opened.putOnce('a/1', { reward: 0.25 })).rejects.toMatchObject(damaged('a/1'));
  expect([await opened.get('a/2'), await opened.list('b/')]).toEqual([
    { reward: 0.75, text: 'the other' },
    [{ key: 'b/1', value: 'whole' }],
  ]);
});

it('two records with exchanged keys are found, each with its own checksum', async () => {
  const raw = new DatabaseSync(join(dir, 'store.sqlite'));
  const [first, other] = ['a/1', 'a/2'].map((key) =>
    raw.prepare('SELECT value, at, sum FROM results WHERE key = ?').get(key)!,
  );
  for (const [key, { value, at, sum }] of [
    ['a/1', other!],
    ['a/2', first!],
  ] as const)
    raw.prepare('UPDATE results SET value = ?, at = ?, sum = ? WHERE key = ?').run(value!, at!, sum!, key);
  raw.close();
  store = openSqliteStore(dir);
  for (const key of ['a/1', 'a/2']) await expect(store.get(key)).rejects.toMatchObject(damaged(key));
});

it('a byte that is no valid text any more is found', async () => {
  const opened = changed(['the first', 'the \u00ffirs']);
  await expect(opened.get('a/1')).rejects.toMatchObject(damaged('a/1'));
});

it('a changed digit of a key is found when the row is listed', async () => {
  const opened = changed(['a/2', 'a/7']);
  await expect(opened.list('a/')).rejects.toMatchObject(damaged('a/7'));
});

it('a changed digit of an object is found, and a missing object', async () => {
  const opened = changed(['object 1234', 'object 1235']);
  await expect(opened.getObject(object)).rejects.toMatchObject(
    damaged(object, `the object ${object} is not what was written`),
  );
  const gone: ObjectRef = `sha256:${'0'.repeat(64)}`;
  await expect(opened.getObject(gone)).rejects.toMatchObject(damaged(gone, 'is missing'));
});

it('a changed digit of an event is found when its run is read, also from the middle on', async () => {
  const raw = new DatabaseSync(join(dir, 'store.sqlite'));
  // The table and its unique index both have the text; SQLite compares the two.
  raw.prepare(`UPDATE events SET detail = 'turn-42' WHERE run = 'r'`).run();
  raw.close();
  store = openSqliteStore(dir);
  const found = damaged('train/r/step-1/t/0#1 turn', 'the event 1 (train/r/step-1/t/0#1 turn) is not what was written');
  await expect(store.events('r')).rejects.toMatchObject(found);
  await expect(store.eventsSince('r', 0)).rejects.toMatchObject(found);
  expect((await store.eventsSince('r', 1)).events).toEqual([]);
});

it('a changed digit of an execution is found when executions are counted', async () => {
  const raw = new DatabaseSync(join(dir, 'store.sqlite'));
  raw.prepare(`UPDATE executions SET key = 'model:k-18'`).run();
  raw.close();
  store = openSqliteStore(dir);
  const found = damaged('model:k-18', 'the execution 1 of model:k-18 is not what was written');
  await expect(store.begun('model:k-18')).rejects.toMatchObject(found);
  await expect(store.executions(0)).rejects.toMatchObject(found);
  await expect(store.repeats()).rejects.toMatchObject(found);
});

it('a store with another format is refused and not changed', async () => {
  const old = join(dir, 'old');
  store = openSqliteStore(old);
  await store.close();
  const raw = new DatabaseSync(join(old, 'store.sqlite'));
  raw.exec(
    'DROP TABLE results; CREATE TABLE results (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID; PRAGMA user_version=0;',
  );
  raw.close();
  store = openSqliteStore(dir);
  expect(() => openSqliteStore(old)).toThrow(
    expect.objectContaining({
      name: 'StoreFormatUnknown',
      message: expect.stringMatching(
        /old has format 0, and this version of Longhaul reads only format 5: use the version that made the store, or set LONGHAUL_HOME/,
      ) as string,
    }),
  );
  expect(await store.get('b/1')).toBe('whole');
});
