/** The advantage estimators by name; the built-in names are SkyRL's. */

import { guarded, miscounted } from '../own-code.ts';
import { Registry } from '../../../modules/registry.ts';
import type { AdvantageEstimator, TokenAdvantages, TokenRewards } from './estimator.ts';
import { gaeAdvantages, valuesOf, reinforcePlusPlusAdvantages } from './token-level.ts';
import { grpoAdvantages, maxrlAdvantages, rlooAdvantages } from './within-group.ts';

const epsilonOf = (epsilon: number | undefined) => (epsilon === undefined ? {} : { epsilon });

export const ADVANTAGES = {
  grpo: {
    over: 'group',
    estimate: (rewards, { normaliseByStd, advantageEpsilon }) =>
      grpoAdvantages(rewards, { normaliseByStd, ...epsilonOf(advantageEpsilon) }),
  },
  rloo: { over: 'group', estimate: (rewards) => rlooAdvantages(rewards) },
  maxrl: {
    over: 'group',
    estimate: (rewards, { advantageEpsilon }) => maxrlAdvantages(rewards, epsilonOf(advantageEpsilon)),
  },
  'reinforce++': { over: 'token', estimate: (tokens, settings) => reinforcePlusPlusAdvantages(tokens, settings) },
  gae: {
    over: 'token',
    estimate: (tokens, { gamma, lambd }) => gaeAdvantages(tokens, valuesOf(tokens), { gamma, lambda: lambd }),
  },
} as const satisfies Record<string, AdvantageEstimator>;

const builtIn: Readonly<Record<string, AdvantageEstimator>> = ADVANTAGES;

/**
 * True if the estimator returns 0 for a group whose rewards are all equal. A user's own estimator is assumed to: the
 * answer must not depend on whether its module is loaded yet.
 */
export const comparesGroups = (name: string): boolean => builtIn[name]?.over !== 'token';

export const advantageEstimators = new Registry<AdvantageEstimator>('advantage', ADVANTAGES);

/**
 * Adds a user's own estimator under a new name, for `algorithm.advantage`. Errors: `TypeError` if the name is taken.
 */
export function defineAdvantage(name: string, estimator: AdvantageEstimator): void {
  const wrong = (answer: unknown, given: unknown): string | undefined => {
    if (estimator.over === 'group')
      return miscounted('advantages', answer as readonly number[] | undefined, (given as readonly number[]).length);
    const [tokens, { length }] = [answer as Partial<TokenAdvantages> | undefined, (given as TokenRewards).mask];
    // Only a critic needs returns.
    return (
      miscounted('advantages', tokens?.advantages, length) ??
      (tokens?.returns && miscounted('returns', tokens.returns, length))
    );
  };
  advantageEstimators.define(name, guarded(`advantage ${name}`, estimator, 'estimate', wrong));
}
