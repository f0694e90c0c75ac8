/**
 * Hunts evaluations that starve behind training, and training that waits for evaluations. Pure: the engine is a model
 * that serves one request at a time. Not asserted: how long anything takes.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Due, dueAt, inOrder, ORDINARY, PATIENCE_MS } from '../../../trainer/sampler/urgency.ts';

interface Asked extends Due {
  readonly arrived: number;
  readonly priority: number;
}

const asked = (arrived: number, priority: number): Asked => ({ arrived, priority, due: dueAt(arrived, priority) });

const anyAsked = fc
  .record({ arrived: fc.nat({ max: 5 * PATIENCE_MS }), priority: fc.integer({ min: 1, max: 5 }) })
  .map(({ arrived, priority }) => asked(arrived, priority));
const anyQueue = fc.array(anyAsked, { maxLength: 40 }).map((all) => all.toSorted((a, b) => a.arrived - b.arrived));

describe('the order of requests', () => {
  it('puts the more urgent of two that waited equally long first, and keeps the order of equals', () => {
    fc.assert(
      fc.property(anyQueue, (queue) => {
        const order = inOrder(queue);
        for (const [i, one] of order.entries())
          for (const later of order.slice(i + 1)) {
            if (one.arrived === later.arrived) expect(one.priority).toBeLessThanOrEqual(later.priority);
            if (one.priority === later.priority) expect(queue.indexOf(one)).toBeLessThan(queue.indexOf(later));
          }
      }),
    );
  });

  it('lets no request overtake one that arrived more than the patience for their difference earlier', () => {
    fc.assert(
      fc.property(anyQueue, (queue) => {
        const order = inOrder(queue);
        for (const [i, one] of order.entries())
          for (const before of order.slice(0, i))
            expect(before.arrived - one.arrived).toBeLessThanOrEqual(PATIENCE_MS * (one.priority - before.priority));
      }),
    );
  });

  it('starves no request: beside training that never stops, an evaluation is served after the patience', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 500, max: 30_000 }), (priority, everyMs) => {
        const one = asked(0, priority);
        const bound = Math.max(0, priority - ORDINARY) * PATIENCE_MS + 2 * everyMs;
        let [queue, now] = [[one], 0];
        for (; queue.includes(one) && now <= bound; now += everyMs) {
          queue = inOrder([...queue, asked(now, ORDINARY)]);
          queue.shift();
        }
        expect(queue).not.toContain(one);
      }),
    );
  });

  it('treats a request without a priority as training', () => {
    expect(dueAt(7)).toBe(dueAt(7, 3));
    expect(dueAt(7, 3)).toBeLessThan(dueAt(7, 4));
  });
});
