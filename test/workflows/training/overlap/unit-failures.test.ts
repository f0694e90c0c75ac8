/** Hunts machines that fail in units too small to notice, and a run that is paused again for what somebody has looked at. */
import { describe, expect, it } from 'vitest';
import { type UnitEnds, UnitFailures } from '../../../../workflows/training/overlap/unit-failures.ts';

const settings = { inARow: 8, share: 0.5 };
const lost = (rollouts: number, failed: number): UnitEnds => ({ rollouts, failures: failed > 0 ? { 'engine-lost': failed } : {}, said: { 'engine-lost': 'gone' } });

describe('failures of units', () => {
  it('open the breaker over units, with what the last one said', () => {
    const heard = new UnitFailures(settings);
    expect(heard.heard(1, lost(4, 4))).toBeUndefined();
    expect(heard.heard(2, lost(4, 4))).toEqual({ failure: 'engine-lost', failed: 8, of: 8, message: 'gone' });
  });

  it('open it by their share where rollouts succeed between them', () => {
    const heard = new UnitFailures(settings);
    const trips = Array.from({ length: 8 }, (_, unit) => heard.heard(unit, lost(4, 2)));
    expect(trips.slice(0, 7).every((trip) => trip === undefined)).toBe(true);
    expect(trips[7]).toMatchObject({ failed: 16, of: 32 });
  });

  it('make no row of what may have ended far apart', () => {
    const heard = new UnitFailures(settings);
    // Eight of 32, in any order: its own batch has heard in which.
    expect(heard.heard(1, lost(32, 8))).toBeUndefined();
    expect([2, 3].map((unit) => heard.heard(unit, lost(4, 3)))).toEqual([undefined, undefined]);
  });

  it('of units that were under way when somebody looked are not heard again', () => {
    const heard = new UnitFailures(settings);
    heard.heard(1, lost(4, 4));
    expect(heard.heard(2, lost(4, 4))).toBeDefined();
    heard.reset([3, 4]);
    expect([3, 4].map((unit) => heard.heard(unit, lost(4, 4)))).toEqual([undefined, undefined]);
    expect(heard.heard(5, lost(4, 4))).toBeUndefined();
    expect(heard.heard(6, lost(4, 4))).toMatchObject({ failed: 8, of: 8 });
  });

  it('are nothing to a run without a breaker', () => {
    const heard = new UnitFailures({ inARow: 0, share: 0.5 });
    expect([1, 2, 3].map((unit) => heard.heard(unit, lost(4, 4)))).toEqual([undefined, undefined, undefined]);
  });
});
