/** Scores and turn lengths of a batch of rollouts, as SkyRL reports them. */

import { rowsByGroup } from './filters.ts';

/** One number per rollout, or one per token. */
export type Reward = number | readonly number[];

export const totalOf = (reward: Reward): number =>
  typeof reward === 'number' ? reward : reward.reduce((sum, r) => sum + r, 0);

export interface GeneratorMetrics {
  /** Mean over rollouts. */
  readonly avgScore: number;
  /** Share of the groups with a rollout whose last reward is above 0. */
  readonly passAtN: number;
  /** Mean over rollouts of the sum of their positive rewards. */
  readonly meanPositiveReward: number;
}

const lastOf = (reward: Reward): number => (typeof reward === 'number' ? reward : (reward.at(-1) ?? 0));
const positiveOf = (reward: Reward): number =>
  totalOf((typeof reward === 'number' ? [reward] : reward).map((r) => Math.max(0, r)));

export function generatorMetrics(rewards: readonly Reward[], groups: readonly string[]): GeneratorMetrics {
  const mean = (value: (reward: Reward) => number): number =>
    rewards.reduce<number>((sum, r) => sum + value(r), 0) / Math.max(1, rewards.length);
  const members = [...rowsByGroup(groups).values()];
  const passed = members.filter((rows) => rows.some((row) => lastOf(rewards[row] ?? 0) > 0));
  return {
    avgScore: mean(totalOf),
    passAtN: passed.length / Math.max(1, members.length),
    meanPositiveReward: mean(positiveOf),
  };
}

/** Number of sampled tokens of each turn: the lengths of the runs of 1 in the masks, row after row. */
export function turnTokenCounts(masks: ReadonlyArray<readonly number[]>): number[] {
  return masks.flatMap((mask) => {
    const turns: number[] = [];
    let before = 0;
    for (const counts of mask) {
      if (counts && !before) turns.push(0);
      if (counts) turns[turns.length - 1] = (turns.at(-1) ?? 0) + 1;
      before = counts;
    }
    return turns;
  });
}
