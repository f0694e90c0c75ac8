/** What an advantage estimator is: of a group's rewards, or of the rewards of every token of a batch. Pure. */

import type { Masked, Values } from '../rows.ts';

/** What a rollout's reward is turned into advantages with. */
export interface AdvantageSettings {
  /** `grpo`: divide by the group's standard deviation. */
  readonly normaliseByStd: boolean;
  /** Discount per token of the estimators over tokens. */
  readonly gamma: number;
  /** `gae`: λ. */
  readonly lambd: number;
  /** Added to what is divided by. */
  readonly advantageEpsilon?: number;
}

export interface TokenRewards extends Masked {
  readonly rewards: Values;
  /** A critic's, before the update's first step; absent where none is trained. */
  readonly values?: Values | undefined;
}

export interface TokenAdvantages {
  readonly advantages: Float64Array;
  /** What a critic, where there is one, is trained towards. */
  readonly returns: Float64Array;
}

/** `group`: one number for each reward of one group. `token`: one for each token of the whole batch. */
export type AdvantageEstimator =
  | {
      readonly over: 'group';
      readonly estimate: (rewards: readonly number[], settings: AdvantageSettings) => readonly number[];
    }
  | {
      readonly over: 'token';
      readonly estimate: (tokens: TokenRewards, settings: AdvantageSettings) => TokenAdvantages;
    };
