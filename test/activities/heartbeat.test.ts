/**
 * Hunts an activity that counts as dead while it only waits for a disk, and one that does not report what it waits for.
 */
import { asyncLocalStorage, type Context } from '@temporalio/activity';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { withHeartbeat } from '../../activities/heartbeat.ts';
import { StoreFull } from '../../store/disk-errors.ts';
import { retryWhileDiskUnavailable, pausedBy } from '../../store/disk-patience.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }));
afterEach(() => void vi.useRealTimers());

function beating() {
  const said: unknown[] = [];
  const context = {
    heartbeat: (detail: unknown) => void said.push(detail),
    cancellationSignal: new AbortController().signal,
  };
  const run = <T>(work: Parameters<typeof withHeartbeat<T>>[0]) =>
    asyncLocalStorage.run(context as unknown as Context, () => withHeartbeat(work));
  return { said, run };
}

it('beats several times within the 15 s after which Temporal gives it up, until its work is over', async () => {
  const { said, run } = beating();
  const work = Promise.withResolvers<void>();
  const running = run((_, progress) => (progress(0.5), work.promise));
  await vi.advanceTimersByTimeAsync(15_000);
  expect(said.length).toBeGreaterThanOrEqual(3);
  expect(new Set(said)).toEqual(new Set([0.5]));
  work.resolve();
  await running;
  said.length = 0;
  await vi.advanceTimersByTimeAsync(15_000);
  expect(said).toEqual([]);
});

it('reports why it waits for the disk, for as long as it does', async () => {
  const { said, run } = beating();
  let full = true;
  const patience = { firstMs: 5, longestMs: 5, totalMs: 60_000 };
  const write = async () => {
    if (full) throw new StoreFull('/disk');
  };
  const after = Promise.withResolvers<void>();
  const running = run(async (_, progress) => {
    progress('at work');
    await retryWhileDiskUnavailable('/disk', patience, write);
    await after.promise;
  });
  await expect.poll(() => pausedBy()).not.toBeNull();
  await vi.advanceTimersByTimeAsync(6_000);
  expect(said.at(-1)).toMatch(/^paused: No space is left at \/disk/);
  full = false;
  await expect.poll(() => pausedBy()).toBeNull();
  await vi.advanceTimersByTimeAsync(6_000);
  expect(said.at(-1)).toBe('at work');
  after.resolve();
  await running;
});
