/** The measures of a schedule, from the start and end times of its rollouts' stages. */

import type { Stage } from '../../protocol/rollout.ts';

export interface Interval {
  readonly rollout: number;
  readonly stage: Stage;
  readonly start: number;
  readonly end: number;
}

export interface Measures {
  readonly makespan: number;
  /** Time in agent-run, divided by the places in agent-run times the makespan; above 1 without a cap on places. */
  readonly runUtilisation: number;
  /** The most rollouts at once between the start of init and the end of reward: each has at most one sandbox. */
  readonly liveSandboxesPeak: number;
}

/** The most intervals at one moment; an interval that ends when another starts does not overlap it. */
export function peak(intervals: ReadonlyArray<{ readonly start: number; readonly end: number }>): number {
  const changes = intervals.flatMap(({ start, end }) => [
    { at: start, by: 1 },
    { at: end, by: -1 },
  ]);
  changes.sort((a, b) => a.at - b.at || a.by - b.by);
  let now = 0;
  let most = 0;
  for (const { by } of changes) most = Math.max(most, (now += by));
  return most;
}

/** `makespan`: default is the last end. */
export function measure(
  intervals: readonly Interval[],
  runWidth: number,
  makespan = Math.max(...intervals.map(({ end }) => end)),
): Measures {
  const busy = intervals
    .filter(({ stage }) => stage === 'agent-run')
    .reduce((sum, { start, end }) => sum + end - start, 0);
  const lives = new Map<number, { start: number; end: number }>();
  for (const { rollout, start, end } of intervals) {
    const life = lives.get(rollout) ?? { start, end };
    lives.set(rollout, { start: Math.min(life.start, start), end: Math.max(life.end, end) });
  }
  return { makespan, runUtilisation: busy / runWidth / makespan, liveSandboxesPeak: peak([...lives.values()]) };
}
