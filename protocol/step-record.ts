/** The recorded numbers of a step and of an evaluation. */

import type { UpdateMetrics } from './algorithm.ts';

export interface StepRecord {
  readonly step: number;
  readonly policyVersion: number;
  readonly rewardMean: number;
  readonly passRate: number;
  readonly groups: number;
  /**
   * Of the drawn groups with several graded rollouts: how many differ in reward, and how many do not, from which
   * nothing is learned. Absent for estimators that do not compare the rollouts of a group.
   */
  readonly groupRewards?: { readonly varied: number; readonly alike: number };
  readonly valid: number;
  /** Rollouts left out because the infrastructure failed, by reason. */
  readonly masked: Readonly<Record<string, number>>;
  /** Rollouts of groups that cannot be learned from, by reason. */
  readonly dropped: Readonly<Record<string, number>>;
  readonly sampledTokens: number;
  readonly trainedTokens: number;
  /** How often a chat template rewrote earlier text, so that one rollout became several training sequences. */
  readonly prefixBreaks: number;
  /** Durations, without the time in which the run was paused. */
  readonly seconds: { readonly rollout: number; readonly train: number; readonly total: number };
  readonly learningRate: number;
  readonly loss: number;
  readonly kl: number;
  readonly entropy: number;
  readonly gradNorm: number;
  /** Share of the tokens, over all passes, for which the clipped term was the larger loss. */
  readonly clipFraction?: number;
  readonly logprobDrift: UpdateMetrics['logprobDrift'];
  /** Staleness of the trained tokens. */
  readonly staleness?: Staleness;
  /** The batches that contain its groups. Absent: only `step-N`. */
  readonly batches?: readonly string[];
}

/** How many updates older the sampling policies were than the trained policy, over tokens. */
export interface Staleness {
  readonly mean: number;
  readonly max: number;
  /** Share of the tokens that an older policy sampled. */
  readonly offPolicy: number;
}

export interface EvaluationRecord {
  /** Over all sampled rollouts. A failed rollout counts as not passed. */
  readonly passRate: number;
  /** Over the graded sampled rollouts. `null` if there are none. */
  readonly gradedPassRate?: number | null;
  /** Sampled rollouts that failed because of the infrastructure, by reason. */
  readonly failed?: Readonly<Record<string, number>>;
  /** Scores of the graded sampled rollouts. Absent if there are none. */
  readonly scores?:
    | { readonly avgScore: number; readonly passAt1: number; readonly meanPositiveReward: number }
    | undefined;
  readonly greedyPassRate: number | null;
  readonly rollouts: number;
  readonly byFamily: Readonly<Record<string, { readonly rollouts: number; readonly passRate: number }>>;
}
