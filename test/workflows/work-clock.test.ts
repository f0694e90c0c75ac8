import { expect, it } from 'vitest';
import { WorkClock } from '../../workflows/work-clock.ts';

it('does not advance while it is stopped, however often it is stopped, and continues from there', () => {
  const clock = new WorkClock();
  expect(clock.reading(1000)).toBe(1000);
  clock.stop(2000);
  clock.stop(2500);
  expect([clock.reading(2000), clock.reading(9000), clock.stoppedMs(9000)]).toEqual([2000, 2000, 7000]);
  clock.resume(10_000);
  clock.resume(11_000);
  expect([clock.reading(10_000), clock.reading(12_000)]).toEqual([2000, 4000]);
  const inAnotherHistory = new WorkClock(clock.stoppedMs(12_000));
  expect(inAnotherHistory.reading(13_000)).toBe(5000);
});
