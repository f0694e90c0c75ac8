/** Advantages of whole batches and of steps against SkyRL's own functions. */

import { expect, test } from 'vitest';
import { advantagesByGroup } from '../../../trainer/algorithms/advantages/within-group.ts';
import { advantageEstimators, defineAdvantage } from '../../../trainer/algorithms/advantages/registry.ts';
import { stepwiseAdvantages } from '../../../trainer/algorithms/advantages/stepwise.ts';
import { type AdvantageCase, estimated, spread } from './advantages.ts';
import { closeAll, eachCase, flat, mustFail, sumOf, type Table } from './vectors.ts';

eachCase<AdvantageCase>('advantages', (given, where) => {
  if (mustFail(where, given.expected, () => estimated(given))) return;
  const got = estimated(given);
  // Groups whose rewards are nearly equal divide by almost nothing.
  const tolerance = ['grpo', 'rloo', 'maxrl'].includes(given.estimator) ? 1e-6 : 1e-7;
  closeAll(`${where} advantages`, got.advantages, flat(given.expected.advantages), tolerance);
  closeAll(`${where} returns`, got.returns, flat(given.expected.returns), tolerance);
});

interface StepwiseCase extends Pick<
  AdvantageCase,
  'name' | 'estimator' | 'grpo_norm_by_std' | 'token_level_rewards' | 'response_mask' | 'group_ids'
> {
  readonly is_last_step: readonly boolean[];
  readonly expected: { readonly advantages: Table };
}

eachCase<StepwiseCase>('stepwise_advantages', (given, where) => {
  const run = (): number[] =>
    stepwiseAdvantages(
      { scores: given.token_level_rewards.map(sumOf), groups: given.group_ids, isLast: given.is_last_step },
      (group) => {
        const estimator = advantageEstimators.get(given.estimator);
        if (estimator.over !== 'group') throw new Error(`${given.estimator} is not over groups`);
        return estimator.estimate(group, { normaliseByStd: given.grpo_norm_by_std, gamma: 1, lambd: 1 });
      },
    );
  if (mustFail(where, given.expected, run)) return;
  closeAll(where, spread(run(), given.response_mask), flat(given.expected.advantages), 1e-6);
});

test("a user's own estimator is found by its name, and no name is defined twice", () => {
  defineAdvantage('best_of_group', {
    over: 'group',
    estimate: (rewards) => rewards.map((r) => Number(r === Math.max(...rewards))),
  });
  const estimator = advantageEstimators.get('best_of_group');
  expect(
    estimator.over === 'group' && estimator.estimate([1, 3, 2], { normaliseByStd: false, gamma: 1, lambd: 1 }),
  ).toEqual([0, 1, 0]);
  expect(() => defineAdvantage('grpo', estimator)).toThrow(/grpo is already defined/);
  expect(() => advantageEstimators.get('loop')).toThrow(/no advantage loop; known: grpo, rloo/);
  expect(() => advantagesByGroup([1, 2], ['a', 'a'], () => [0])).toThrow(/1 advantages for the 2 rewards of a/);
});
