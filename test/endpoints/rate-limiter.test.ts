/** Hunts requests that are admitted too early, too many at once, out of order, or never. The clock is scripted. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RateLimiter, type RateLimits } from '../../endpoints/rate-limiter.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());
const { signal } = new AbortController();

/** Starts `count` requests that never end by themselves. `begun`: the times of their starts. */
function started(limits: RateLimits, count: number, tokens = 0) {
  const limiter = new RateLimiter(limits);
  const from = Date.now();
  const begun: number[] = [];
  const ends: Array<() => void> = [];
  for (let i = 0; i < count; i += 1) {
    void limiter.run(tokens, signal, () => {
      begun.push(Date.now() - from);
      return new Promise<void>((resolve) => ends.push(resolve));
    });
  }
  return { limiter, begun, ends };
}

describe('a limiter', () => {
  it('admits no more at once than allowed, and the next one when one has ended', async () => {
    const { begun, ends } = started({ maxConcurrent: 2 }, 5);
    await vi.advanceTimersByTimeAsync(1000);
    expect(begun).toEqual([0, 0]);
    ends[0]!();
    await vi.advanceTimersByTimeAsync(0);
    expect(begun).toEqual([0, 0, 1000]);
  });

  it('keeps the limit of requests per minute, and finally admits all', async () => {
    const { begun } = started({ maxConcurrent: 100, requestsPerMinute: 6 }, 12);
    await vi.advanceTimersByTimeAsync(600_000);
    expect(begun).toEqual([0, 0, 0, 0, 0, 0, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000]);
  });

  it('keeps the limit of tokens per minute; a larger request waits for a full bucket, not for ever', async () => {
    const { begun } = started({ maxConcurrent: 100, tokensPerMinute: 600 }, 3, 900);
    await vi.advanceTimersByTimeAsync(600_000);
    expect(begun).toEqual([0, 90_000, 180_000]);
  });

  it('admits nothing during a wait that the server requested', async () => {
    const { limiter, begun, ends } = started({ maxConcurrent: 1 }, 2);
    await vi.advanceTimersByTimeAsync(0);
    limiter.pause(5000);
    ends[0]!();
    await vi.advanceTimersByTimeAsync(4999);
    expect(begun).toEqual([0]);
    await vi.advanceTimersByTimeAsync(1);
    expect(begun).toEqual([0, 5000]);
  });

  it('forgets one that was cancelled while it waited', async () => {
    const { limiter, begun, ends } = started({ maxConcurrent: 1 }, 1);
    const given = new AbortController();
    const waiting = limiter.run(0, given.signal, async () => 'ran');
    given.abort(new Error('given up'));
    await expect(waiting).rejects.toThrow('given up');
    const next = limiter.run(0, signal, async () => 'ran');
    ends[0]!();
    expect(await next).toBe('ran');
    expect(begun).toEqual([0]);
  });

  it('gives the slot of a failed one to the next', async () => {
    const limiter = new RateLimiter({ maxConcurrent: 1 });
    await expect(limiter.run(0, signal, () => Promise.reject(new Error('broke')))).rejects.toThrow('broke');
    expect(await limiter.run(0, signal, async () => 'ran')).toBe('ran');
  });
});
