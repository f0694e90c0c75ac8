/** Rewards, tokens and times of a step's valid rollouts, under SkyRL's names. */

import { generatorMetrics } from '../../trainer/algorithms/generator-metrics.ts';
import { hintCounts } from '../../protocol/hints.ts';
import type { GenerateRecord, OutcomeRecord } from '../../protocol/records.ts';
import { readTaskKey } from '../../protocol/task-key.ts';
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
  const reported = members.filter(({ turns }) => turns.length > 0 && turns.every(({ cost }) => cost !== undefined));
  return reported.map(({ turns }) =>
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

/** The mean of each name, over the rollouts that have it. */
function meansOf(prefix: string, named: ReadonlyArray<Readonly<Record<string, number>> | undefined>) {
  const values = new Map<string, number[]>();
  for (const [name, value] of named.flatMap((one) => Object.entries(one ?? {})))
    values.set(name, [...(values.get(name) ?? []), value]);
  return Object.fromEntries([...values].map(([name, all]) => [`${prefix}/${name}`, spreadOf(all).mean]));
}

/** Scores by the source of the tasks, if there are several sources. */
function sourceMetrics(members: readonly Member[], { samples, sources }: Drawn): Record<string, number> {
  if (sources.length < 2) return {};
  const bySource = Map.groupBy(members, ({ outcome: { task } }) => readTaskKey(task, sources)?.source ?? task);
  return Object.assign(
    {},
    ...[...bySource].map(([source, those]) => {
      const scored = scoresOf(those);
      return {
        [`source/${source}/avg_raw_reward`]: scored.avgScore,
        [`source/${source}/avg_pass_at_${samples}`]: scored.passAtN,
      };
    }),
  ) as Record<string, number>;
}

const scoresOf = (members: readonly Member[]) =>
  generatorMetrics(
    members.map(({ outcome }) => outcome.reward ?? 0),
    members.map(({ outcome }) => outcome.task),
  );

/** How the rollouts were drawn. */
interface Drawn {
  /** A group's size, which names the pass rate. */
  readonly samples: number;
  /** Names of all sources of tasks. */
  readonly sources: readonly string[];
}

/** Hints of a rollout by rule, on average, of the rules that applied in any. */
function hintMetrics(members: readonly Member[]): Record<string, number> {
  const total = hintCounts(members.flatMap(({ turns }) => turns));
  return Object.fromEntries(Object.entries(total).map(([rule, count]) => [`hints/${rule}`, count / members.length]));
}

export function rolloutMetrics(members: readonly Member[], drawn: Drawn): Record<string, number> {
  const scored = scoresOf(members);
  return {
    'reward/avg_raw_reward': scored.avgScore,
    [`reward/avg_pass_at_${drawn.samples}`]: scored.passAtN,
    'reward/mean_positive_reward': scored.meanPositiveReward,
    ...tokenMetrics(members),
    'generate/avg_turns': spreadOf(members.map(({ turns }) => turns.length)).mean,
    ...meansOf(
      'reward/parts',
      members.map(({ outcome }) => outcome.parts),
    ),
    ...meansOf(
      'environment',
      members.map(({ outcome }) => outcome.metrics),
    ),
    ...hintMetrics(members),
    ...sourceMetrics(members, drawn),
    ...timeMetrics('generate/trajectory_time_llm', modelSeconds(members)),
  };
}
