/** The contract, for SQLite; and what only its file shows. */
import { copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openStore, sqliteUrl } from '../../store/open-store.ts';
import type { Store } from '../../store/store.ts';
import { storeContract } from './contract.ts';
import { contractOfProcesses } from './contract-of-processes.ts';

const makeDir = () => mkdtempSync(join(tmpdir(), 'longhaul-store-'));

storeContract('sqlite', () => {
  const dir = makeDir();
  return { open: () => openStore(sqliteUrl(dir)), remove: async () => rmSync(dir, { recursive: true }) };
});

contractOfProcesses('sqlite', () => {
  const dir = makeDir();
  return {
    url: sqliteUrl(dir),
    remove: async () => rmSync(dir, { recursive: true }),
    reformat: () => {
      const raw = new DatabaseSync(join(dir, 'store.sqlite'));
      raw.exec('PRAGMA user_version=1');
      raw.close();
    },
  };
});

let dir: string;
let store: Store;
beforeEach(async () => {
  dir = makeDir();
  store = await openStore(sqliteUrl(dir));
});
afterEach(async () => {
  await store.close();
  rmSync(dir, { recursive: true });
});

it('an object with another hash than its name is damage', async () => {
  const ref = await store.putObject(Buffer.from('hello'));
  const raw = new DatabaseSync(join(dir, 'store.sqlite'));
  raw.prepare('UPDATE objects SET bytes = ?').run(Buffer.from('hellO'));
  raw.close();
  await expect(store.getObject(ref)).rejects.toMatchObject({ name: 'StoreCorrupt', key: ref });
});

it('an object of a record that exists already leaves no bytes behind', async () => {
  const first = await store.putOnceWithObject('k', Buffer.from('first'), (ref) => ({ ref }));
  await store.putOnceWithObject('k', Buffer.from('late'), (ref) => ({ ref }));
  const raw = new DatabaseSync(join(dir, 'store.sqlite'));
  expect(raw.prepare('SELECT ref FROM objects').all()).toEqual([{ ref: first.ref }]);
  raw.close();
});

it('changes name a damaged row and give all others', async () => {
  const event = { run: 'r', rollout: 'x', attempt: 1, event: 'turn', at: '2026-01-01T00:00:00.000Z' } as const;
  await store.append([event, { ...event, detail: '2' }]);
  await store.putOnce('k:1', 1);
  await store.putOnce('k:2', 2);
  const raw = new DatabaseSync(join(dir, 'store.sqlite'));
  raw.exec("UPDATE results SET value = '3' WHERE key = 'k:1'; UPDATE events SET at = '2027' WHERE detail = '2'");
  raw.close();
  const page = (await store.changes(undefined, 10, ['k']))!;
  expect([page.events, page.records.map(({ key }) => key), page.damaged]).toEqual([
    [event],
    ['k:2'],
    [
      { kind: 'event', key: 'x#1 turn', run: 'r' },
      { kind: 'record', key: 'k:1' },
    ],
  ]);
});

/** Why: a reader that continued after its cursor would never see what was written again under the same numbers. */
it('changes after a cursor are refused when an earlier copy of the store was restored', async () => {
  const event = { run: 'r', rollout: 'x', attempt: 1, event: 'turn', at: '2026-01-01T00:00:00.000Z' } as const;
  await store.append([event]);
  const raw = new DatabaseSync(join(dir, 'store.sqlite'));
  raw.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  raw.close();
  copyFileSync(join(dir, 'store.sqlite'), join(dir, 'copy'));
  await store.append([{ ...event, detail: '2' }]);
  const { cursor } = (await store.changes(undefined, 10, []))!;
  await store.close();
  for (const end of ['-wal', '-shm']) rmSync(join(dir, `store.sqlite${end}`), { force: true });
  copyFileSync(join(dir, 'copy'), join(dir, 'store.sqlite'));
  store = await openStore(sqliteUrl(dir));
  expect(await store.changes(cursor, 10, [])).toBeUndefined();
  await store.append([{ ...event, detail: 'another' }]);
  expect(await store.changes(cursor, 10, [])).toBeUndefined();
});

it('a store outside of a home is only for its owner', async () => {
  const other = await openStore(sqliteUrl(join(dir, 'new')));
  await other.close();
  expect(statSync(join(dir, 'new')).mode & 0o077).toBe(0);
});
