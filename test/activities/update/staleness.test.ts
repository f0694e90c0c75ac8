/** How far off policy a step was: counted over tokens. */
import { expect, it } from 'vitest';
import { stalenessOf } from '../../../activities/update/staleness.ts';

it('is the age of each token in updates', () => {
  expect(stalenessOf(new Map([[7, 50], [6, 30], [4, 20]]), 7)).toEqual({ mean: 0.9, max: 3, offPolicy: 0.5 });
});

it('is 0 on policy, without a token, and knows nothing of versions that said nothing', () => {
  const none = { mean: 0, max: 0, offPolicy: 0 };
  expect(stalenessOf(new Map([[7, 5]]), 7)).toEqual(none);
  expect(stalenessOf(new Map(), 7)).toEqual(none);
  expect(stalenessOf(new Map([[7, 5], [2, 0]]), 7)).toEqual(none);
});
