/** The advantage estimators by name; the built-in names are SkyRL's. */

import { guarded } from '../own-code.ts';
import { Registry } from '../registry.ts';
import type { AdvantageEstimator } from './estimator.ts';
import { gaeAdvantages, valuesOf } from './gae.ts';
import { grpoAdvantages } from './grpo.ts';
import { maxrlAdvantages } from './maxrl.ts';
import { reinforcePlusPlusAdvantages } from './reinforce-plus-plus.ts';
import { rlooAdvantages } from './rloo.ts';

const epsilonOf = (epsilon: number | undefined) => (epsilon === undefined ? {} : { epsilon });

export const ADVANTAGES = {
  grpo: {
    over: 'group',
    estimate: (rewards, { normaliseByStd, advantageEpsilon }) => grpoAdvantages(rewards, { normaliseByStd, ...epsilonOf(advantageEpsilon) }),
  },
  rloo: { over: 'group', estimate: (rewards) => rlooAdvantages(rewards) },
  maxrl: { over: 'group', estimate: (rewards, { advantageEpsilon }) => maxrlAdvantages(rewards, epsilonOf(advantageEpsilon)) },
  'reinforce++': { over: 'token', estimate: (tokens, settings) => reinforcePlusPlusAdvantages(tokens, settings) },
  gae: { over: 'token', estimate: (tokens, { gamma, lambd }) => gaeAdvantages(tokens, valuesOf(tokens), { gamma, lambda: lambd }) },
} as const satisfies Record<string, AdvantageEstimator>;

const builtIn: Readonly<Record<string, AdvantageEstimator>> = ADVANTAGES;

/**
 * Whether what it estimates is 0 in a group whose rewards are all alike. One's own is taken to: the answer must not depend
 * on whether its module has been loaded yet.
 */
export const comparesGroups = (name: string): boolean => builtIn[name]?.over !== 'token';

export const advantageEstimators = new Registry<AdvantageEstimator>('advantage', ADVANTAGES);

/** Adds an estimator of one's own under a new name, for `algorithm.advantage`. Errors: a `TypeError` where the name is taken. */
export function defineAdvantage(name: string, estimator: AdvantageEstimator): void {
  advantageEstimators.define(name, guarded(`advantage ${name}`, estimator, 'estimate'));
}
