/** What is on record of a step and of an evaluation: the numbers that a run is judged by. */

import type { UpdateMetrics } from './algorithm.ts';

export interface StepRecord {
  readonly step: number;
  readonly policyVersion: number;
  readonly rewardMean: number;
  readonly passRate: number;
  readonly groups: number;
  readonly valid: number;
  /** Rollouts left out for an infrastructural reason, by reason. */
  readonly masked: Readonly<Record<string, number>>;
  /** Rollouts of groups that teach nothing, by reason. */
  readonly dropped: Readonly<Record<string, number>>;
  readonly sampledTokens: number;
  readonly trainedTokens: number;
  /** Times a chat template rewrote the past, so that one rollout became several training sequences. */
  readonly prefixBreaks: number;
  /** Without the time that the run stood still. */
  readonly seconds: { readonly rollout: number; readonly train: number; readonly total: number };
  readonly learningRate: number;
  readonly loss: number;
  readonly kl: number;
  readonly entropy: number;
  readonly gradNorm: number;
  /** Share of the tokens, over all passes, where the clipped term was the larger loss. */
  readonly clipFraction?: number;
  readonly logprobDrift: UpdateMetrics['logprobDrift'];
  /** Of the tokens that were trained on. */
  readonly staleness?: Staleness;
  /** The batches that its groups come from, where it is not `step-N` alone. */
  readonly batches?: readonly string[];
}

/** How many updates older than the policy that was trained the policies were that sampled: over tokens. */
export interface Staleness {
  readonly mean: number;
  readonly max: number;
  /** Share of tokens that an older policy sampled. */
  readonly offPolicy: number;
}

export interface EvaluationRecord {
  /** Of all sampled rollouts: what failed has not passed. */
  readonly passRate: number;
  /** Of the sampled rollouts that were graded; `null` where none was. */
  readonly gradedPassRate?: number | null;
  /** Sampled rollouts that failed for an infrastructural reason, by reason. */
  readonly failed?: Readonly<Record<string, number>>;
  /** Rewards of the sampled rollouts that were graded; absent where none was. */
  readonly scores?:
    | { readonly avgScore: number; readonly passAt1: number; readonly meanPositiveReward: number }
    | undefined;
  readonly greedyPassRate: number | null;
  readonly rollouts: number;
  readonly byFamily: Readonly<Record<string, { readonly rollouts: number; readonly passRate: number }>>;
}
