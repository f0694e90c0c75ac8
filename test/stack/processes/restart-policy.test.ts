/** Hunts a process that is started in a tight loop, and one that waits long although it ran well. */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nextQuickDeaths, restartDelayMs, STABLE_MS } from '../../../stack/processes/managed-process.ts';

test('the first restart comes at once, later ones ever more slowly, up to half a minute', () => {
  const delays = Array.from({ length: 10 }, (_, index) => restartDelayMs(index + 1));
  expect(delays).toEqual([100, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 30_000, 30_000]);
});

test('a process that lived long enough begins anew; whatever happened, a delay is between 0.1 and 30 s', () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 2 * STABLE_MS }), { minLength: 1 }), (lives) => {
      const deaths = lives.reduce(nextQuickDeaths, 0);
      expect(restartDelayMs(deaths)).toBeGreaterThanOrEqual(100);
      expect(restartDelayMs(deaths)).toBeLessThanOrEqual(30_000);
      if ((lives.at(-1) ?? 0) >= STABLE_MS) expect(restartDelayMs(deaths)).toBe(100);
    }),
  );
});
