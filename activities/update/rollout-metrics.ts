/** What a step's valid rollouts scored and said, by SkyRL's names. */

import { generatorMetrics } from '../../trainer/algorithms/metrics/generator-metrics.ts';
import type { GenerateRecord, OutcomeRecord } from '../records.ts';

/** A rollout that was graded, with its model calls. */
export interface Member {
  readonly outcome: OutcomeRecord;
  readonly turns: readonly GenerateRecord[];
}

interface Spread {
  readonly mean: number;
  readonly min: number;
  readonly max: number;
  readonly std: number;
}

/** Zeros where there is nothing; the deviation is the population's. */
function spreadOf(values: readonly number[]): Spread {
  const mean = values.reduce((sum, x) => sum + x, 0) / Math.max(1, values.length);
  const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / Math.max(1, values.length);
  const extreme = (pick: (a: number, b: number) => number): number => (values.length === 0 ? 0 : values.reduce((a, b) => pick(a, b)));
  return { mean, min: extreme(Math.min), max: extreme(Math.max), std: Math.sqrt(variance) };
}

const saidBy = ({ turns }: Member): number => turns.reduce((sum, { sampled }) => sum + sampled.length, 0);

/** `samples` is a group's size, which names the pass rate. */
export function rolloutMetrics(members: readonly Member[], samples: number): Record<string, number> {
  const rewards = members.map(({ outcome }) => outcome.reward ?? 0);
  const scored = generatorMetrics(rewards, members.map(({ outcome }) => outcome.task));
  const tokens = spreadOf(members.map(saidBy));
  const perTurn = spreadOf(members.flatMap(({ turns }) => turns.map(({ sampled }) => sampled.length)).filter((count) => count > 0));
  const tokensWhere = (rewarded: boolean): number => spreadOf(members.filter(({ outcome }) => (outcome.reward ?? 0) > 0 === rewarded).map(saidBy)).mean;
  return {
    'reward/avg_raw_reward': scored.avgScore,
    [`reward/avg_pass_at_${samples}`]: scored.passAtN,
    'reward/mean_positive_reward': scored.meanPositiveReward,
    'generate/avg_num_tokens': tokens.mean,
    'generate/min_num_tokens': tokens.min,
    'generate/max_num_tokens': tokens.max,
    'generate/std_num_tokens': tokens.std,
    'generate/avg_tokens_non_zero_rewards': tokensWhere(true),
    'generate/avg_tokens_zero_rewards': tokensWhere(false),
    'generate/tokens_per_turn_mean': perTurn.mean,
    'generate/tokens_per_turn_min': perTurn.min,
    'generate/tokens_per_turn_max': perTurn.max,
    'generate/avg_turns': spreadOf(members.map(({ turns }) => turns.length)).mean,
  };
}
