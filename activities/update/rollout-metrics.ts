/** Rewards, tokens and times of a step's valid rollouts, under SkyRL's names. */

import { generatorMetrics } from '../../trainer/algorithms/generator-metrics.ts';
import type { GenerateRecord, OutcomeRecord } from '../../protocol/records.ts';
import { spreadOf, timeMetrics } from '../../reports/spread.ts';

/** A rollout that was graded, with its model calls. */
export interface Member {
  readonly outcome: OutcomeRecord;
  readonly turns: readonly GenerateRecord[];
  /** Rewards of single turns, by turn; absent: the environment gave none. */
  readonly turnRewards?: ReadonlyMap<number, number>;
}

const saidBy = ({ turns }: Pick<Member, 'turns'>): number =>
  turns.reduce((sum, { sampled }) => sum + sampled.length, 0);

/** Tokens of its sequences after the first prompt of each: sampled tokens, and the tools' answers between them. */
function responseOf({ turns }: Member): number {
  const answered = turns.reduce((sum, { reset, appended }, i) => sum + (reset || i === 0 ? 0 : appended.length), 0);
  return saidBy({ turns }) + answered;
}

/** Seconds in the engine, waits for room included, of the rollouts all of whose calls reported their cost. */
function modelSeconds(members: readonly Member[]): number[] {
  const told = members.filter(({ turns }) => turns.length > 0 && turns.every(({ cost }) => cost !== undefined));
  return told.map(({ turns }) =>
    turns.reduce((sum, { cost }) => sum + (cost ? cost.queueSeconds + cost.seconds : 0), 0),
  );
}

function tokenMetrics(members: readonly Member[]): Record<string, number> {
  const [response, said] = [spreadOf(members.map(responseOf)), spreadOf(members.map(saidBy))];
  const perTurn = spreadOf(
    members.flatMap(({ turns }) => turns.map(({ sampled }) => sampled.length)).filter((count) => count > 0),
  );
  const tokensWhere = (holds: (reward: number) => boolean): number =>
    spreadOf(members.filter(({ outcome }) => holds(outcome.reward ?? 0)).map(responseOf)).mean;
  return {
    'generate/avg_num_tokens': response.mean,
    'generate/min_num_tokens': response.min,
    'generate/max_num_tokens': response.max,
    'generate/std_num_tokens': response.std,
    'generate/avg_assistant_tokens': said.mean,
    'generate/min_assistant_tokens': said.min,
    'generate/max_assistant_tokens': said.max,
    'generate/std_assistant_tokens': said.std,
    'generate/avg_tokens_non_zero_rewards': tokensWhere((reward) => reward > 0),
    'generate/avg_tokens_zero_rewards': tokensWhere((reward) => reward === 0),
    'generate/tokens_per_turn_mean': perTurn.mean,
    'generate/tokens_per_turn_min': perTurn.min,
    'generate/tokens_per_turn_max': perTurn.max,
    'generate/tokens_per_turn_std': perTurn.std,
  };
}

/** `samples` is a group's size, which names the pass rate. */
export function rolloutMetrics(members: readonly Member[], samples: number): Record<string, number> {
  const scored = generatorMetrics(
    members.map(({ outcome }) => outcome.reward ?? 0),
    members.map(({ outcome }) => outcome.task),
  );
  return {
    'reward/avg_raw_reward': scored.avgScore,
    [`reward/avg_pass_at_${samples}`]: scored.passAtN,
    'reward/mean_positive_reward': scored.meanPositiveReward,
    ...tokenMetrics(members),
    'generate/avg_turns': spreadOf(members.map(({ turns }) => turns.length)).mean,
    ...timeMetrics('generate/trajectory_time_llm', modelSeconds(members)),
  };
}
