/** Hunts pauses that become a reward of 0, and programs that escape their reward because others waited for them. */
import { describe, expect, it } from 'vitest';
import { initialState, reduce } from '../../../workflows/rollout/rollout-loop.ts';
import { isDueToWaits, MOST_WAITED_MS, WaitedTime } from '../../../workflows/rollout/waited-time.ts';

describe('the time that calls waited', () => {
  it('counts calls side by side once, and nothing in between', () => {
    const time = new WaitedTime(5);
    time.begin(100);
    time.begin(110);
    expect(time.ms(120)).toBe(25);
    time.end(130);
    time.end(140);
    expect(time.ms(500)).toBe(45);
    time.lost(490, 500);
    time.lost(480, 510);
    expect(time.ms(510)).toBe(65);
  });

  it('ends with the program', () => {
    const time = new WaitedTime();
    time.begin(0);
    time.stop(7);
    time.end(1000);
    time.lost(1000, 2000);
    expect(time.ms(3000)).toBe(7);
  });
});

it('a program that gave up after long waits says nothing about its policy; an answer and a spent budget do', () => {
  const long = MOST_WAITED_MS + 1;
  expect(isDueToWaits('program-timeout', long)).toBe(true);
  expect(isDueToWaits('program-failed', long)).toBe(true);
  expect(isDueToWaits('program-failed', MOST_WAITED_MS)).toBe(false);
  expect(isDueToWaits('answer', long)).toBe(false);
  expect(isDueToWaits('max-turns', long)).toBe(false);
});

it('its attempt starts again, and after the last one it is masked', () => {
  const limits = { maxTurns: 5, maxAttempts: 2, maxRestores: 3 };
  const event = { type: 'failed', failure: 'program-starved', message: '' } as const;
  const waiting = { ...initialState, phase: 'wait', external: 'sandbox' } as const;
  const next = reduce(waiting, event, limits);
  expect(next).toMatchObject({ phase: 'prepare', attempt: 2 });
  expect(reduce({ ...waiting, attempt: 2 }, event, limits)).toMatchObject({ phase: 'failed' });
});
