/**
 * Hunts failures of machines in batches that are too small to notice, and a run that is paused again for a known
 * failure.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CircuitBreaker } from '../../../workflows/failures/circuit-breaker.ts';
import type { End } from '../../../protocol/breaker.ts';
import { type BatchEnds, RunFailures } from '../../../workflows/failures/run-failures.ts';

const settings = { maxConsecutiveFailures: 8, share: 0.5 };
const said = { 'engine-lost': 'gone' };
const LOST = 'engine-lost';
/** Ends as a batch reports them: from the first failure on. */
function told(ends: readonly End[], at = 1): BatchEnds {
  const first = ends.findIndex((end) => end !== null);
  const timed = first < 0 ? [] : ends.slice(first).map((end) => [at, end] as const);
  return { rollouts: ends.length, said, ends: timed };
}
const ends = (pattern: string): End[] => pattern.split('').map((one) => (one === 'x' ? LOST : null));
describe('failures of a run', () => {
  it('open its breaker across batches, with the message of the last one', () => {
    const run = new RunFailures(settings);
    expect(run.add(told(ends('.xxxx')))).toBeUndefined();
    expect(run.add(told(ends('xxxx')))).toEqual({ failure: LOST, failed: 8, of: 8, message: 'gone' });
  });

  it('open it if eleven of twelve fail in each step, though every row has one success', () => {
    const run = new RunFailures({ maxConsecutiveFailures: 12, share: 0.5 });
    const trips = Array.from({ length: 4 }, () => run.add(told(ends('xxxxxx.xxxxx'))));
    expect(trips.slice(0, 3)).toEqual([undefined, undefined, undefined]);
    expect(trips[3]).toMatchObject({ failed: 44, of: 48 });
  });

  it('of groups as large as a row count like others', () => {
    const run = new RunFailures(settings);
    const trips = Array.from({ length: 4 }, () => run.add(told(ends('.x.xx.xx'))));
    expect(trips.slice(0, 3)).toEqual([undefined, undefined, undefined]);
    expect(trips[3]).toMatchObject({ failed: 20, of: 32 });
  });

  it('make no row if a success was between them, in whatever batch', () => {
    const run = new RunFailures(settings);
    expect(run.add(told(ends('xxxx.')))).toBeUndefined();
    expect(run.add(told(ends('....')))).toBeUndefined();
    expect(run.add(told(ends('xxxx')))).toBeUndefined();
  });

  it('from before a resume do not count, and others of the same batch do', () => {
    const run = new RunFailures(settings);
    expect(run.add(told(ends('xxxxxxxx'), 5))).toBeDefined();
    run.reset(10);
    const half = {
      ...told(ends('xxxxxxxx')),
      ends: Array.from({ length: 8 }, (_, i) => [i < 4 ? 9 : 11, LOST] as const),
    };
    expect(run.add(half)).toBeUndefined();
    expect(run.lately).toEqual(Array(4).fill(LOST));
    expect(run.add(told(ends('xxxx'), 12))).toMatchObject({ failed: 8, of: 8 });
  });

  it('continue in a new history, and in the batch that starts next', () => {
    const run = new RunFailures(settings);
    run.add(told(ends('..xxxxx')));
    const next = new RunFailures(settings, JSON.parse(JSON.stringify(run.state)) as typeof run.state);
    expect(next.lately).toEqual(ends('..xxxxx'));
    expect(next.add(told(ends('xxx')))).toMatchObject({ failed: 8, of: 8 });
  });

  it('count as in one breaker that receives every end, however they are split into batches', () => {
    const batches = fc.array(fc.array(fc.boolean(), { maxLength: 6 }), { maxLength: 20 });
    fc.assert(
      fc.property(batches, fc.integer({ min: 1, max: 4 }), (parts, maxConsecutiveFailures) => {
        const [one, run] = [
          new CircuitBreaker({ maxConsecutiveFailures, share: 0.5 }),
          new RunFailures({ maxConsecutiveFailures, share: 0.5 }),
        ];
        for (const part of parts) {
          const batch: End[] = part.map((failed) => (failed ? LOST : null));
          const trips = batch.flatMap((end) => one.add(end === null ? {} : { failure: end, message: 'gone' }) ?? []);
          expect(run.add(told(batch))).toEqual(trips[0]);
          expect(run.lately).toEqual(one.state.last);
        }
      }),
    );
  });

  it('are ignored by a run without a breaker', () => {
    const run = new RunFailures({ maxConsecutiveFailures: 0, share: 0.5 });
    expect([1, 2, 3].map(() => run.add(told(ends('xxxx'))))).toEqual([undefined, undefined, undefined]);
  });
});
