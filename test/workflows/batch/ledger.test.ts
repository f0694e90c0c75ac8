/** Hunts groups that are drawn again, or trained on, because of a difference in the last digits of rewards. */

import { expect, it } from 'vitest';
import { varies } from '../../../workflows/batch/ledger.ts';

it('a group varies if graded rewards differ by more than their last digits', () => {
  const of = (rewards: readonly number[], samples = 2) =>
    varies(rewards.length === 0 ? {} : { least: Math.min(...rewards), most: Math.max(...rewards) }, samples);
  expect([of([0, 1]), of([0.5, 0.5 + 2e-6]), of([0.5, 0.5 + 5e-7]), of([1, 1]), of([1]), of([])]).toEqual([
    true,
    true,
    false,
    false,
    false,
    false,
  ]);
  expect([of([1], 1), of([], 1)]).toEqual([true, false]);
});
