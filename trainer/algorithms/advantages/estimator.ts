/**
 * The interface of advantage estimators: over a group's rewards, or over the rewards of all tokens of a batch. Pure.
 */

import type { Masked, Values } from '../rows.ts';

/** Settings of the advantage estimators. */
export interface AdvantageSettings {
  /** `grpo`: divide by the group's standard deviation. */
  readonly normaliseByStd: boolean;
  /** Discount per token, for estimators over tokens. */
  readonly gamma: number;
  /** `gae`: λ. */
  readonly lambd: number;
  /** Added to the divisor. */
  readonly advantageEpsilon?: number;
}

export interface TokenRewards extends Masked {
  readonly rewards: Values;
  /** The critic's values before the update's first step; absent if no critic is trained. */
  readonly values?: Values | undefined;
}

export interface TokenAdvantages {
  readonly advantages: Float64Array;
  /** Targets of the critic, if one is trained. */
  readonly returns: Float64Array;
}

/** `group`: one advantage per reward of one group. `token`: one advantage per token of the whole batch. */
export type AdvantageEstimator =
  | {
      readonly over: 'group';
      readonly estimate: (rewards: readonly number[], settings: AdvantageSettings) => readonly number[];
    }
  | {
      readonly over: 'token';
      readonly estimate: (tokens: TokenRewards, settings: AdvantageSettings) => TokenAdvantages;
    };
