/**
 * Disks that are full, read-only or damaged, with real file systems (mounting them needs root). Hunted: a lost or
 * incomplete write, damage with a wrong class, and work that does not continue when the cause is gone.
 */
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { withFailureMapping } from '../../activities/failure-mapping.ts';
import { removeLeftovers, writeAtomically } from '../../store/atomic-write.ts';
import { retryWhileDiskUnavailable, pausedBy } from '../../store/disk-patience.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';

let dir: string;
const opened: Store[] = [];
const open = (at: string, ...rest: [Parameters<typeof openSqliteStore>[1]?]) => {
  const store = openSqliteStore(at, ...rest);
  opened.push(store);
  return store;
};
const mount = (...args: string[]) => execFileSync('mount', args);
const impatient = { firstMs: 20, longestMs: 100, totalMs: 30_000 };
const filler = () => join(dir, 'filler');

function fill(): void {
  const block = Buffer.alloc(4096);
  try {
    for (;;) writeFileSync(filler(), block, { flag: 'a' });
  } catch (error) {
    expect((error as NodeJS.ErrnoException).code).toBe('ENOSPC');
  }
}

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-disk-'));
  mount('-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', dir);
});
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
  execFileSync('umount', ['-l', dir]);
  rmSync(dir, { recursive: true });
});

describe('a full disk', () => {
  it('fails a write with its class and remedy; the records stay, and the same store continues when there is space', async () => {
    const store = open(join(dir, 'store'));
    await store.putOnce('before', 'x'.repeat(1000));
    fill();
    const failed = await store.putOnce('during', 'y'.repeat(500_000)).catch((error: unknown) => error);
    expect(failed).toMatchObject({
      name: 'StoreFull',
      message: expect.stringMatching(/No space is left at .*store: free some/),
    });
    await expect(
      store.append([{ run: 'r', rollout: 'a', attempt: 1, event: 'started', at: 'z'.repeat(500_000) }]),
    ).rejects.toMatchObject({ name: 'StoreFull' });
    expect(await store.get('before')).toBe('x'.repeat(1000));
    expect(await store.get('during')).toBeUndefined();
    expect(await store.events('r')).toEqual([]);
    rmSync(filler());
    expect(await store.putOnce('during', 'z')).toBe('z');
  });

  it('delays a worker and fails nothing; the worker reports once why it waits, and once that it continues', async () => {
    const said: string[] = [];
    const store = open(join(dir, 'store'), { ...impatient, say: (line) => said.push(line) });
    fill();
    const written = store.putObject(Buffer.alloc(300_000, 7));
    await expect.poll(() => pausedBy()).toMatch(/^paused: No space is left at/);
    await sleep(300);
    rmSync(filler());
    expect((await store.getObject(await written)).length).toBe(300_000);
    expect(pausedBy()).toBeNull();
    expect(said).toEqual([expect.stringMatching(/^StoreFull: No space is left/), `${join(dir, 'store')}: continues`]);
  });

  it('is waited for no longer than the patience allows', async () => {
    const store = open(join(dir, 'store'), { ...impatient, totalMs: 150 });
    fill();
    await expect(store.putObject(Buffer.alloc(300_000))).rejects.toMatchObject({ name: 'StoreFull' });
    expect(pausedBy()).toBeNull();
  });

  it('leaves no half-written and no temporary file; the existing file stays complete', async () => {
    const file = join(dir, 'run', 'summary.json');
    await writeAtomically(file, '{"step":1}\n');
    fill();
    const failed = await withFailureMapping(() => writeAtomically(file, 'x'.repeat(1_000_000))).catch(
      (error: unknown) => error,
    );
    expect(failed).toMatchObject({ type: 'StoreFull', nonRetryable: false });
    expect(readFileSync(file, 'utf8')).toBe('{"step":1}\n');
    expect(readdirSync(join(dir, 'run'))).toEqual(['summary.json']);
  });
});

describe('a disk that can only be read', () => {
  it('is reported when the store is opened and when a file is written, and is used again when it is writable', async () => {
    mkdirSync(join(dir, 'store'));
    const first = openSqliteStore(join(dir, 'store'));
    await first.putOnce('k', 1);
    await first.close();
    mount('-o', 'remount,ro', dir);
    expect(() => openSqliteStore(join(dir, 'store'))).toThrow(
      expect.objectContaining({
        name: 'StoreReadOnly',
        message: expect.stringMatching(/can only be read: mount it for writing/),
      }),
    );
    await expect(writeAtomically(join(dir, 'summary.json'), '{}')).rejects.toMatchObject({ name: 'StoreReadOnly' });
    const patient = retryWhileDiskUnavailable(dir, impatient, async () => open(join(dir, 'store')));
    await expect.poll(() => pausedBy()).toMatch(/can only be read/);
    mount('-o', 'remount,rw', dir);
    expect(await (await patient).get('k')).toBe(1);
  });
});

describe('a store that another program holds locked', () => {
  it('is reported, waited for without blocking the event loop, and used again', async () => {
    const said: string[] = [];
    const store = open(join(dir, 'store'), { ...impatient, say: (line) => said.push(line) });
    await store.putOnce('before', 1);
    const other = new DatabaseSync(join(dir, 'store', 'store.sqlite'));
    other.exec('BEGIN IMMEDIATE');
    const written = store.putOnce('during', 2);
    await expect.poll(() => pausedBy()).toMatch(/^paused: The store at .* is locked by another program/);
    expect(await store.get('before')).toBe(1);
    other.exec('ROLLBACK');
    other.close();
    expect(await written).toBe(2);
    expect(pausedBy()).toBeNull();
    expect(said).toEqual([expect.stringMatching(/^StoreBusy: The store at/), `${join(dir, 'store')}: continues`]);
  });
});

describe('damage', () => {
  /** A store's files after a loss of power: the end of the log is missing. */
  async function torn(cut: (wal: string) => void): Promise<Store> {
    const store = open(join(dir, 'whole'));
    for (let i = 0; i < 20; i += 1)
      await store.putOnce(`k${String(i).padStart(2, '0')}`, { i, text: 'x'.repeat(2000) });
    mkdirSync(join(dir, 'torn'));
    for (const name of ['store.sqlite', 'store.sqlite-wal'])
      copyFileSync(join(dir, 'whole', name), join(dir, 'torn', name));
    cut(join(dir, 'torn', 'store.sqlite-wal'));
    return open(join(dir, 'torn'));
  }

  it.each([
    ['cut short', (wal: string) => truncateSync(wal, statSync(wal).size - 1500)],
    [
      'with other bytes',
      (wal: string) => {
        const bytes = readFileSync(wal);
        bytes[bytes.length - 2000]! ^= 0xff;
        writeFileSync(wal, bytes);
      },
    ],
  ])('of the last record, %s, takes that record and no other, and it can be written again', async (_, cut) => {
    const store = await torn(cut);
    const there = await store.list<{ i: number }>('k');
    expect(there.length).toBeGreaterThanOrEqual(18);
    expect(there.length).toBeLessThan(20);
    expect(there.map(({ value }) => value.i)).toEqual(there.map((_unused, i) => i));
    expect(await store.putOnce('k19', { i: 19 })).toEqual({ i: 19 });
  });

  it('in the middle of the file is reported and not classified as something else', async () => {
    const store = openSqliteStore(join(dir, 'store'));
    for (let i = 0; i < 50; i += 1) await store.putOnce(`k${i}`, 'x'.repeat(3000));
    await store.close();
    const file = join(dir, 'store', 'store.sqlite');
    const bytes = readFileSync(file);
    bytes.fill(0xee, 8192, bytes.length);
    writeFileSync(file, bytes);
    const error = await Promise.resolve()
      .then(() => open(join(dir, 'store')).list('k'))
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      name: 'StoreCorrupt',
      message: expect.stringMatching(/damaged .*restore the file from a copy/),
    });
    writeFileSync(file, 'this is no database, but it is long enough to look like one'.repeat(20));
    expect(() => openSqliteStore(join(dir, 'store'))).toThrow(expect.objectContaining({ name: 'StoreCorrupt' }));
  });

  it('of one record, or of an object, is reported, and the others are read', async () => {
    const store = open(join(dir, 'store'));
    const [whole, damaged] = [
      await store.putObject(Buffer.from('whole')),
      await store.putObject(Buffer.from('as it was')),
    ];
    for (const key of ['k1', 'k2']) await store.putOnce(key, { key });
    const file = new DatabaseSync(join(dir, 'store', 'store.sqlite'));
    file.prepare('UPDATE objects SET bytes = ? WHERE ref = ?').run(Buffer.from('as it is!'), damaged);
    file.prepare('UPDATE results SET value = substr(value, 1, 4) WHERE key = ?').run('k1');
    file.close();
    await expect(store.getObject(damaged)).rejects.toMatchObject({
      name: 'StoreCorrupt',
      message: expect.stringContaining(damaged),
    });
    await expect(store.get('k1')).rejects.toMatchObject({
      name: 'StoreCorrupt',
      message: expect.stringContaining('the record k1 is not what was written'),
    });
    await expect(store.list('k')).rejects.toMatchObject({ name: 'StoreCorrupt' });
    expect(Buffer.from(await store.getObject(whole)).toString()).toBe('whole');
    expect(await store.get('k2')).toEqual({ key: 'k2' });
  });
});

describe('temporary files of killed writers', () => {
  it('are removed when nobody writes to them; everything else stays', async () => {
    mkdirSync(join(dir, 'checkpoints', 'step-3.partial-77-abc'), { recursive: true });
    writeFileSync(join(dir, 'checkpoints', 'step-3.partial-77-abc', 'model.safetensors'), 'half');
    writeFileSync(join(dir, 'metrics.jsonl.partial-0b4e'), 'half');
    writeFileSync(join(dir, 'metrics.jsonl'), 'whole');
    await removeLeftovers(dir, 60_000);
    expect(existsSync(join(dir, 'metrics.jsonl.partial-0b4e'))).toBe(true);
    await removeLeftovers(dir, 0);
    expect(
      readdirSync(dir, { recursive: true })
        .map(String)
        .toSorted((a, b) => a.localeCompare(b)),
    ).toEqual(['checkpoints', 'metrics.jsonl']);
  });
});
