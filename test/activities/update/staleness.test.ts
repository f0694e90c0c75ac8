/** How far off policy a step was: counted over tokens. */
import { expect, it } from 'vitest';
import { asyncMetrics, stalenessOf } from '../../../activities/update/staleness.ts';

it('is the age of each token in updates', () => {
  expect(
    stalenessOf(
      new Map([
        [7, 50],
        [6, 30],
        [4, 20],
      ]),
      7,
    ),
  ).toEqual({ mean: 0.9, max: 3, offPolicy: 0.5 });
});

it('is 0 on policy and without a token, and ignores versions that sampled nothing', () => {
  const none = { mean: 0, max: 0, offPolicy: 0 };
  expect(stalenessOf(new Map([[7, 5]]), 7)).toEqual(none);
  expect(stalenessOf(new Map(), 7)).toEqual(none);
  expect(
    stalenessOf(
      new Map([
        [7, 5],
        [2, 0],
      ]),
      7,
    ),
  ).toEqual(none);
});

it("reports the staleness of groups under SkyRL's names, each by the oldest version that sampled it", () => {
  expect(asyncMetrics([[7, 7], [7, 5], [6], [4]], 7, 4)).toEqual({
    'async/staleness_mean': 1.5,
    'async/staleness_max': 3,
    'async/staleness_min': 0,
    'async/staleness_ratio': 0.75,
    'async/num_groups_dropped': 4,
    'async/keep_rate': 0.5,
  });
  expect(asyncMetrics([[7]], 7)).not.toHaveProperty('async/keep_rate');
  expect(asyncMetrics([], 7)).toEqual({});
});
