/**
 * Hunts time that machines took of an attempt and that counts as the rollout's, and an attempt that runs past the
 * deadline.
 */
import { asyncLocalStorage, type Context } from '@temporalio/activity';
import { expect, it, vi } from 'vitest';
import { inItsTime, within, OwnClock } from '../../activities/own-time.ts';
import { retryWhileDiskUnavailable } from '../../store/disk-patience.ts';

const signal = () => new AbortController().signal;
const scheduled = <T>(attempt: number, agoMs: number, body: () => Promise<T>): Promise<T> => {
  const info = { activityId: '7', attempt, scheduledTimestampMs: Date.now() - agoMs };
  return asyncLocalStorage.run({ info } as unknown as Context, body);
};

it('an attempt that is over its time ends, and its signal is aborted, however long its work runs', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
  let heard: unknown;
  let ended: unknown;
  inItsTime(5000, signal(), async (own) => {
    own.addEventListener('abort', () => void (heard = own.reason));
    return new Promise<object>(() => undefined);
  }).catch((error: unknown) => (ended = error));
  await vi.advanceTimersByTimeAsync(5100);
  vi.useRealTimers();
  expect(ended).toMatchObject({
    name: 'DeadlinePassed',
    message: 'the remaining 5 s of agent.deadlineSeconds have passed',
  });
  expect(heard).toBe(ended);
});

it('work without remaining time is not started', async () => {
  let begun = false;
  const over = () => new Error('over');
  const work = within({ ms: 0, clock: new OwnClock(), over }, signal(), async () => void (begun = true));
  await expect(work).rejects.toThrow('over');
  expect(begun).toBe(false);
});

it('a wait for a disk within an attempt takes none of its time, and is reported as lost', async () => {
  let tries = 0;
  const full = async () => {
    if ((tries += 1) < 30) throw Object.assign(new Error('full'), { code: 'ENOSPC' });
    return {};
  };
  const outcome = await inItsTime(300, signal(), () =>
    retryWhileDiskUnavailable('the store', { firstMs: 20, longestMs: 20, totalMs: 60_000 }, full),
  );
  expect(outcome.lostMs).toBeGreaterThan(300);
});

it('the time of earlier attempts is reported as lost; the wait of a first one is not', async () => {
  const lost = (attempt: number) => scheduled(attempt, 60_000, () => inItsTime(undefined, signal(), async () => ({})));
  expect(await lost(1)).toEqual({});
  expect((await lost(2)).lostMs).toBeGreaterThanOrEqual(60_000);
});
