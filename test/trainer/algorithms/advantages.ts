/** Runs one batch of the vectors through the estimator that it names. */

import { advantagesByGroup } from '../../../trainer/algorithms/advantages/within-group.ts';
import { advantageEstimators } from '../../../trainer/algorithms/advantages/registry.ts';
import { flat, lengthsOf, type Named, sumOf, type Table } from './vectors.ts';

export interface AdvantageCase extends Named {
  readonly estimator: string;
  readonly token_level_rewards: Table;
  readonly response_mask: Table;
  readonly group_ids: readonly string[];
  readonly values: Table | null;
  readonly gamma: number;
  readonly lambd: number;
  readonly grpo_norm_by_std: boolean;
  readonly epsilon: number;
  readonly expected: { readonly advantages: Table; readonly returns: Table };
}

/** The rows' scores, spread over the tokens that count. */
export const spread = (scores: readonly number[], mask: Table): number[] =>
  mask.flatMap((row, r) => row.map((counts) => counts * scores[r]!));

export function estimated(given: Omit<AdvantageCase, 'expected' | 'name'>): {
  advantages: ArrayLike<number>;
  returns: ArrayLike<number>;
} {
  const { estimator: name, response_mask: mask, token_level_rewards: rewards } = given;
  const settings = {
    normaliseByStd: given.grpo_norm_by_std,
    gamma: given.gamma,
    lambd: given.lambd,
    advantageEpsilon: given.epsilon,
  };
  const tokens = {
    starts: lengthsOf(mask),
    mask: flat(mask),
    rewards: flat(rewards),
    ...(given.values && { values: flat(given.values) }),
  };
  const estimator = advantageEstimators.get(name);
  if (estimator.over === 'token') return estimator.estimate(tokens, settings);
  const scores = advantagesByGroup(rewards.map(sumOf), given.group_ids, (group) => estimator.estimate(group, settings));
  return { advantages: spread(scores, mask), returns: spread(scores, mask) };
}
