/** Mean times per rollout over many rollouts, and their table. */

import { table } from '../terminal-text.ts';
import type { ActivityTimes, RolloutTimes } from './rollout-times.ts';

export interface MeanTimes {
  readonly rollouts: number;
  /** Per rollout, in seconds; the parts below add up to it. */
  readonly wallSeconds: number;
  readonly activities: ReadonlyArray<{
    readonly name: string;
    readonly count: number;
    readonly seconds: number;
    readonly waitedSeconds: number;
  }>;
  readonly workflowTasks: { readonly count: number; readonly seconds: number };
  readonly stoodSeconds: number;
}

/** Activities are sorted by their time, the longest first. Errors: `RangeError` if `all` is empty. */
export function meanOf(all: readonly RolloutTimes[]): MeanTimes {
  if (all.length === 0) throw new RangeError('There is no rollout to take the mean of');
  const mean = (of: (one: RolloutTimes) => number) => all.reduce((sum, one) => sum + of(one), 0) / all.length;
  const names = [...new Set(all.flatMap(({ activities }) => activities.map(({ name }) => name)))];
  const spent = (name: string, of: (one: ActivityTimes) => number) =>
    mean(({ activities }) => activities.filter((one) => one.name === name).reduce((sum, one) => sum + of(one), 0));
  const activities = names.map((name) => ({
    name,
    count: spent(name, ({ count }) => count),
    seconds: spent(name, ({ workedMs }) => workedMs) / 1000,
    waitedSeconds: spent(name, ({ waitedMs }) => waitedMs) / 1000,
  }));
  return {
    rollouts: all.length,
    wallSeconds: mean(({ wallMs }) => wallMs) / 1000,
    activities: activities.sort((a, b) => b.seconds - a.seconds),
    workflowTasks: {
      count: mean(({ workflowTasks }) => workflowTasks),
      seconds: mean(({ workflowMs }) => workflowMs) / 1000,
    },
    stoodSeconds: mean(({ stoodMs }) => stoodMs) / 1000,
  };
}

export function timesLines({ rollouts, wallSeconds, activities, workflowTasks, stoodSeconds }: MeanTimes): string[] {
  const share = (seconds: number) => `${((100 * seconds) / wallSeconds || 0).toFixed(1)}%`;
  const row = (name: string, count: number | undefined, seconds: number) => [
    name,
    count?.toFixed(1) ?? '',
    seconds.toFixed(3),
    share(seconds),
  ];
  const waited = activities.reduce((sum, one) => sum + one.waitedSeconds, 0);
  return table([
    [`MEAN OF ${rollouts}`, 'TIMES', 'SECONDS', 'SHARE'],
    ...activities.map(({ name, count, seconds }) => row(name, count, seconds)),
    row('waiting for workers', undefined, waited),
    ...activities
      .filter((one) => one.waitedSeconds > 0)
      .map((one) => row(`  for ${one.name}`, undefined, one.waitedSeconds)),
    row('workflow tasks', workflowTasks.count, workflowTasks.seconds),
    row('at gates, paused', undefined, stoodSeconds),
    row('a rollout', undefined, wallSeconds),
  ]);
}
