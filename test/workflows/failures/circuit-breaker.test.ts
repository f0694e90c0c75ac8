/** Hunts a breaker that opens because of the policy, that never opens, or that opens twice for one cause. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FailureClass } from '../../../protocol/finish-reason.ts';
import { CircuitBreaker } from '../../../workflows/failures/circuit-breaker.ts';
import { tripLine, type Trip } from '../../../protocol/breaker.ts';
import { FAILURES } from '../../../protocol/failure-policy.ts';

const settings = { maxConsecutiveFailures: 3, share: 0.5 };
const ends = (...failures: Array<FailureClass | undefined>) =>
  failures.map((failure) => (failure ? { failure, message: `says ${failure}` } : {}));
const trips = (list: ReturnType<typeof ends>, given = settings): Array<[number, Trip]> => {
  const breaker = new CircuitBreaker(given);
  return list.flatMap((end, i): Array<[number, Trip]> => {
    const trip = breaker.add(end);
    return trip ? [[i, trip]] : [];
  });
};

describe('the circuit breaker', () => {
  it('opens at the third failure alike in a row, once, and names class, message and remedy', () => {
    const heard = trips(ends(undefined, 'engine-lost', 'engine-lost', 'engine-lost', 'engine-lost', 'engine-lost'));
    expect(heard).toEqual([[3, { failure: 'engine-lost', failed: 3, of: 3, message: 'says engine-lost' }]]);
    expect(tripLine(heard[0]![1])).toBe(
      `paused by the circuit breaker: 3 of the last 3 rollouts failed as engine-lost (says engine-lost); ${FAILURES['engine-lost'].remedy}; then \`npx longhaul resume RUN\``,
    );
  });

  it.each(['environment-failed', 'agent-failed', 'tool-failed', 'grader-failed'] as const)(
    'says of %s that an edited module needs another run: `resume` has the old one',
    (failure) => {
      expect(tripLine({ failure, failed: 8, of: 8, message: 'why' })).toMatch(
        /\(a run keeps its modules: a changed one needs a run with another name\); then `npx longhaul resume RUN`$/,
      );
    },
  );

  it('is not opened by failures of several kinds, nor by few among many', () => {
    expect(trips(ends('engine-lost', 'sandbox-lost', 'engine-lost', 'sandbox-lost', undefined, undefined))).toEqual([]);
    expect(trips(Array.from({ length: 60 }, (_, i) => ends(i % 3 === 0 ? 'sandbox-lost' : undefined)[0]!))).toEqual([]);
  });

  it('opens if half of the last twelve fail alike, in any order', () => {
    const list = Array.from({ length: 20 }, (_, i) => ends(i % 2 === 1 ? 'grader-failed' : undefined)[0]!);
    expect(trips(list)).toEqual([[11, expect.objectContaining({ failure: 'grader-failed', failed: 6, of: 12 })]]);
  });

  it('never opens if it is turned off', () => {
    expect(trips(ends(...Array<FailureClass>(40).fill('internal')), { maxConsecutiveFailures: 0, share: 0.5 })).toEqual(
      [],
    );
  });

  it('counts from zero once it is reset', () => {
    const breaker = new CircuitBreaker(settings);
    const [one] = ends('internal');
    for (let i = 0; i < 3; i++) breaker.add(one!);
    breaker.reset();
    expect([breaker.add(one!), breaker.add(one!)]).toEqual([undefined, undefined]);
    expect(breaker.add(one!)).toMatchObject({ failure: 'internal' });
  });

  it('opens only for failure classes of machines, always at or after the first so many, and never twice', () => {
    const classes = Object.keys(FAILURES) as FailureClass[];
    fc.assert(
      fc.property(
        fc.array(fc.option(fc.constantFrom(...classes), { nil: undefined })),
        fc.integer({ min: 1, max: 5 }),
        (list, maxConsecutiveFailures) => {
          const heard = trips(ends(...list), { maxConsecutiveFailures, share: 0.5 });
          expect(heard.length).toBeLessThanOrEqual(1);
          for (const [at, { failure, failed, of }] of heard) {
            expect(FAILURES[failure].breaks).toBe(true);
            expect(at + 1).toBeGreaterThanOrEqual(maxConsecutiveFailures);
            expect(failed).toBeGreaterThanOrEqual(Math.min(maxConsecutiveFailures, of * 0.5));
          }
        },
      ),
    );
  });
});
