/**
 * The durations of a batch's graded rollouts, under SkyRL's names, from the run's events: from the sandbox to the
 * reward. Waits and pauses count.
 */

import type { RolloutEvent } from '../store/store.ts';
import { spreadOf, timeMetrics } from './spread.ts';

/** `begun`, `ended`: seconds since the epoch. `rollouts`: the duration of each, in seconds. */
export interface GroupTimes {
  begun: number;
  ended: number;
  readonly rollouts: number[];
}

const OVER: ReadonlySet<string> = new Set(['trained', 'masked', 'dropped', 'evaluated']);
const mean = (values: readonly number[]): number => spreadOf(values).mean;

/** The metrics of these groups together. Empty if none of their rollouts was graded. */
export function timesOfGroups(groups: readonly GroupTimes[]): Record<string, number> {
  return {
    ...timeMetrics(
      'generate/trajectory_time_completion',
      groups.flatMap(({ rollouts }) => rollouts),
    ),
    ...groupMetrics(groups),
  };
}

function groupMetrics(groups: readonly GroupTimes[]): Record<string, number> {
  const spreads = groups.filter(({ rollouts }) => rollouts.length > 1).map(({ rollouts }) => spreadOf(rollouts));
  const relative = spreads.filter((one) => one.mean > 0).map((one) => one.std / one.mean);
  return {
    ...timeMetrics(
      'generate/group_completion_time',
      groups.map(({ begun, ended }) => ended - begun),
    ),
    ...(spreads.length > 0 && { 'generate/intra_group_completion_time_std_mean': mean(spreads.map(({ std }) => std)) }),
    ...(relative.length > 0 && { 'generate/intra_group_completion_time_cv_mean': mean(relative) }),
  };
}

export class TrajectoryTimes {
  /** By running rollout: when its sandbox was ready. */
  readonly #begun = new Map<string, number>();
  /** By batch and group. */
  readonly #batches = new Map<string, Map<string, GroupTimes>>();

  add({ event, rollout, at }: RolloutEvent): void {
    const seconds = Date.parse(at) / 1000;
    if (event === 'started') this.#begun.set(rollout, seconds);
    if (event === 'graded') this.#graded(rollout, seconds);
    // A rollout that is graded after its end was given up before: it does not change the batch's times.
    if (event === 'graded' || OVER.has(event)) this.#begun.delete(rollout);
  }

  #graded(rollout: string, ended: number): void {
    const begun = this.#begun.get(rollout);
    if (begun === undefined) return;
    const batch = rollout.split('/')[2] ?? '';
    const groups = this.#batches.get(batch) ?? new Map<string, GroupTimes>();
    this.#batches.set(batch, groups);
    const name = rollout.slice(0, rollout.lastIndexOf('/'));
    const group = groups.get(name) ?? { begun, ended, rollouts: [] };
    groups.set(name, group);
    group.begun = Math.min(group.begun, begun);
    group.ended = Math.max(group.ended, ended);
    group.rollouts.push(ended - begun);
  }

  /** The metrics of these batches (`step-3`), as `timesOfGroups`. */
  metrics(batches: readonly string[]): Record<string, number> {
    return timesOfGroups(batches.flatMap((batch) => [...(this.#batches.get(batch)?.values() ?? [])]));
  }
}
