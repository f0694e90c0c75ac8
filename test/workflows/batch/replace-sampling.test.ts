/**
 * Dynamic sampling by replacement. Why: a batch that is judged before it has ended depends on time, one that never has
 * enough draws forever. Asserted, for any pattern of groups that vary and any order of their ends: batches are drawn
 * whole, one after the other, until one has enough, and a new history continues in the same way.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DynamicSampling, untilReplaceable } from '../../../workflows/batch/dynamic-sampling.ts';

const picks = fc.infiniteStream(fc.nat({ max: 10_000 }));

/** Ends groups in the order of `order`; after each end it may continue from its progress, as in a new history. */
function play(varies: readonly boolean[], groups: number, minReplaceRatio: number, order: Iterator<number>): number[] {
  const rule = untilReplaceable(varies.length, { groups, minReplaceRatio });
  let sampling = new DynamicSampling(rule);
  const running: number[] = [];
  const batches: number[] = [];
  let next = 0;
  const fill = () => {
    const count = sampling.admit();
    if (count > 0) {
      // No group of the previous batch is still running.
      expect(running).toEqual([]);
      batches.push(count);
    }
    for (let i = 0; i < count; i += 1) running.push(next++);
  };
  fill();
  while (running.length > 0) {
    const pick = order.next().value as number;
    const [group = 0] = running.splice(pick % running.length, 1);
    sampling.groupEnded(varies[group] === true);
    if (pick % 3 === 0) sampling = new DynamicSampling(rule, sampling.progress);
    fill();
  }
  expect(sampling.begun).toBe(next);
  return batches;
}

describe('dynamic sampling by replacement', () => {
  it('draws whole batches until more than the share of one vary, or there are no more', () => {
    fc.assert(
      fc.property(
        fc
          .integer({ min: 1, max: 8 })
          .chain((groups) =>
            fc.record({
              groups: fc.constant(groups),
              batches: fc.array(fc.array(fc.boolean(), { minLength: groups, maxLength: groups }), {
                minLength: 1,
                maxLength: 5,
              }),
            }),
          ),
        fc.double({ min: 0, max: 0.99, noNaN: true }),
        picks,
        ({ groups, batches }, ratio, order) => {
          const enough = batches.findIndex((batch) => batch.filter(Boolean).length > ratio * groups);
          const drawn = enough < 0 ? batches.length : enough + 1;
          expect(play(batches.flat(), groups, ratio, order)).toEqual(Array.from({ length: drawn }, () => groups));
        },
      ),
    );
  });

  it('exactly the share is not more than it', () => {
    const order = (function* zeros(): Generator<number> {
      for (;;) yield 1;
    })();
    expect(play([true, false, true, true], 2, 0.5, order)).toEqual([2, 2]);
  });
});
