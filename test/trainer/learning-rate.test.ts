/**
 * The learning rate over a training. Why: an off-by-one here is seen by nobody and costs every run. Asserted: the ends
 * of warm-up, the middles and ends of each schedule, and that it never falls below where it should end.
 */
import { expect, test } from 'vitest';
import { learningRateAt } from '../../trainer/learning-rate.ts';
import type { RateSchedule } from '../../protocol/algorithm.ts';

const cosine: RateSchedule = { learningRate: 1, warmup: 10, schedule: 'cosine' };

test('it rises linearly over the warm-up, whose last step has it whole', () => {
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

test('past the last step it stays where it fell to', () => {
  expect(learningRateAt({ ...cosine, finalRate: 0.2 }, 500, 110)).toBeCloseTo(0.2);
  expect(learningRateAt(cosine, 500, 110)).toBeCloseTo(0);
});
