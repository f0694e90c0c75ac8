/**
 * Writers of a store that another program holds locked. Hunted: writers that each block the whole process for a try of
 * their own, so that it sends no heartbeats, and writes that the queue loses or makes twice.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { StoreBusy, StoreFull } from '../../store/disk-errors.ts';
import { WriteQueue } from '../../store/write-queue.ts';
import { pausedBy } from '../../store/disk-patience.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';

const numbers = (length: number) => Array.from({ length }, (_, i) => i);

describe('queued writers', () => {
  const times = { withinMs: 200, firstPauseMs: 5, longestPauseMs: 20 };

  /** A lock that is held until it is released, and the writers that have tried. */
  function locked() {
    const tries: number[] = [];
    const there = { isLocked: true };
    const write = (i: number) => async () => {
      tries.push(i);
      if (there.isLocked) throw new StoreBusy('/store');
      return i;
    };
    return { tries, there, write };
  }

  it('try one at a time: if the first fails at the lock, those behind it fail without a try', async () => {
    const { tries, write } = locked();
    const line = new WriteQueue('/store', times);
    const ends = await Promise.allSettled(numbers(20).map((i) => line.enter(write(i))));
    expect(new Set(ends.map((end) => end.status === 'rejected' && end.reason.name))).toEqual(new Set(['StoreBusy']));
    expect(new Set(tries)).toEqual(new Set([0]));
    expect(tries.length).toBeGreaterThan(1);
  });

  it('run in the order in which they came, with other work between two of them', async () => {
    const { tries, there, write } = locked();
    const line = new WriteQueue('/store', { ...times, withinMs: 60_000 });
    const entered = Promise.all(numbers(5).map((i) => line.enter(write(i))));
    await expect.poll(() => tries.length).toBeGreaterThan(2);
    const between: number[] = [];
    const beat = () => {
      between.push(new Set(tries).size);
      if (between.at(-1) !== 5) setImmediate(beat);
    };
    setImmediate(beat);
    there.isLocked = false;
    expect(await entered).toEqual([0, 1, 2, 3, 4]);
    expect([...new Set(tries)]).toEqual([0, 1, 2, 3, 4]);
    expect(between).toEqual(expect.arrayContaining([1, 2, 3, 4]));
  });

  it('do not fail and are not retried if a writer before them fails for another reason', async () => {
    const line = new WriteQueue('/store', times);
    const full = line.enter(async () => {
      throw new StoreFull('/store');
    });
    const next = line.enter(async () => 'written');
    await expect(full).rejects.toMatchObject({ name: 'StoreFull' });
    expect(await next).toBe('written');
    expect(await line.enter(async () => 'later')).toBe('later');
  });
});

it('a worker with many writers at a locked store continues to send heartbeats and to read, and each write is made once', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-locked-'));
  const store = openSqliteStore(dir, { firstMs: 500, longestMs: 1_000, totalMs: 50_000 });
  await store.putOnce('before', 1);
  const other = new DatabaseSync(join(dir, 'store.sqlite'));
  other.exec('BEGIN EXCLUSIVE');
  const beats = [performance.now()];
  const timer = setInterval(() => beats.push(performance.now()), 100);
  const writes = Promise.all(numbers(60).map((i) => store.begin(`tool:${i}`)));
  await sleep(7_000);
  await expect.poll(() => pausedBy()).toMatch(/locked by another program/);
  expect(await store.get('before')).toBe(1);
  expect(await store.begun('tool:0')).toBe(0);
  other.exec('ROLLBACK');
  other.close();
  expect(new Set(await writes)).toEqual(new Set([1]));
  clearInterval(timer);
  // A try takes 0.2 s; sixty tries, or one try with the full wait, take longer than this.
  expect(Math.max(...beats.slice(1).map((beat, i) => beat - beats[i]!))).toBeLessThan(4_000);
  expect(await Promise.all(numbers(60).map((i) => store.begun(`tool:${i}`)))).toEqual(numbers(60).map(() => 1));
  await store.close();
  rmSync(dir, { recursive: true });
});
