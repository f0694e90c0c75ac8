/**
 * The learning rate over a training. Why: nobody notices an off-by-one error here, and it affects every run. Asserted:
 * the ends of warm-up, the middle and end of each schedule, and that the rate never falls below its final value.
 */
import { expect, test } from 'vitest';
import { learningRateAt } from '../../trainer/learning-rate.ts';
import type { RateSchedule } from '../../protocol/algorithm.ts';

const cosine: RateSchedule = { learningRate: 1, warmup: 10, schedule: 'cosine' };

test('it rises linearly over the warm-up, whose last step has the full rate', () => {
  expect(learningRateAt(cosine, 0, 110)).toBeCloseTo(0.1);
  expect(learningRateAt(cosine, 9, 110)).toBe(1);
  expect(learningRateAt({ ...cosine, warmup: 0 }, 0, 110)).toBe(1);
});

test('it falls by its schedule, to its final fraction', () => {
  expect(learningRateAt(cosine, 10, 110)).toBe(1);
  expect(learningRateAt(cosine, 60, 110)).toBeCloseTo(0.5);
  expect(learningRateAt({ ...cosine, finalRate: 0.5 }, 60, 110)).toBeCloseTo(0.75);
  expect(learningRateAt({ ...cosine, schedule: 'linear' }, 85, 110)).toBeCloseTo(0.25);
  expect(learningRateAt({ ...cosine, schedule: 'constant' }, 109, 110)).toBe(1);
});

test('after the last step it stays at its final value', () => {
  expect(learningRateAt({ ...cosine, finalRate: 0.2 }, 500, 110)).toBeCloseTo(0.2);
  expect(learningRateAt(cosine, 500, 110)).toBeCloseTo(0);
});
