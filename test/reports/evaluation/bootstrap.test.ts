/** Hunts intervals that differ from run to run, do not contain the mean, or are too narrow for 95%. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { bootstrapMean } from '../../../reports/evaluation/bootstrap.ts';
import { createRandom } from '../../../tasks/random.ts';

const settings = { resamples: 400, confidence: 0.95 };

it('is the same for the same values and name, and contains the mean, within the extremes', () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 40 }),
      fc.string(),
      (values, name) => {
        const estimate = bootstrapMean(values, name, settings)!;
        expect(bootstrapMean(values, name, settings)).toEqual(estimate);
        expect(estimate.low).toBeGreaterThanOrEqual(Math.min(...values) - 1e-12);
        expect(estimate.high).toBeLessThanOrEqual(Math.max(...values) + 1e-12);
        expect(estimate.low).toBeLessThanOrEqual(estimate.high);
      },
    ),
    { numRuns: 50 },
  );
});

it('of no values is null, and of equal values has the width 0', () => {
  expect(bootstrapMean([], 'x', settings)).toBeNull();
  expect(bootstrapMean([0.5, 0.5, 0.5], 'x', settings)).toEqual({ mean: 0.5, low: 0.5, high: 0.5 });
});

it('contains the true mean about as often as its confidence', () => {
  const draws = createRandom('true values');
  const trials = 300;
  let covered = 0;
  for (let trial = 0; trial < trials; trial += 1) {
    // Like the tasks of an eval: a random difficulty for each task, then four samples of it.
    const values = Array.from({ length: 60 }, () => {
      const rate = draws.pick([0.1, 0.5, 0.9]);
      return [0, 1, 2, 3].filter(() => draws.chance(rate)).length / 4;
    });
    const { low, high } = bootstrapMean(values, `trial ${trial}`, settings)!;
    if (low <= 0.5 && 0.5 <= high) covered += 1;
  }
  // 0.95 expected, 0.013 standard deviation; a percentile interval of 60 tasks is a little narrow.
  expect(covered / trials).toBeGreaterThan(0.9);
  expect(covered / trials).toBeLessThan(0.99);
});

it('is narrower for a lower confidence', () => {
  const values = Array.from({ length: 30 }, (_, i) => i % 2);
  const wide = bootstrapMean(values, 'x', settings)!;
  const narrow = bootstrapMean(values, 'x', { ...settings, confidence: 0.5 })!;
  expect(narrow.high - narrow.low).toBeLessThan(wide.high - wide.low);
});
