/**
 * Divides a rollout's time by its history. Every moment belongs to exactly one part, so that the parts add up to the
 * whole: to a running activity, else to one that waits for a worker, else to a workflow task.
 */

import type { WorkflowHandle } from '@temporalio/client';
import { millis } from '../../workers/watchdog/failed-task.ts';

export type HistoryEvent = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];

export interface ActivityTimes {
  readonly name: string;
  count: number;
  /** Time of the execution that ended it. */
  workedMs: number;
  /** Time from its scheduling to the start of that execution: the wait for a worker's slot, and earlier tries. */
  waitedMs: number;
}

export interface RolloutTimes {
  readonly wallMs: number;
  readonly activities: readonly ActivityTimes[];
  readonly workflowTasks: number;
  /** Time from a workflow task's scheduling to its end, while no activity is scheduled or running. */
  readonly workflowMs: number;
  /** Time in which nothing is scheduled or running: at gates, paused, or between tries. */
  readonly stoodMs: number;
}

interface Interval {
  readonly from: number;
  readonly to: number;
  readonly rank: number;
  readonly spend: (ms: number) => void;
}

const RANK = { worked: 2, waited: 1, workflow: 0 } as const;

class Ledger {
  readonly intervals: Interval[] = [];
  readonly activities = new Map<string, ActivityTimes>();
  workflowTasks = 0;
  workflowMs = 0;
  stoodMs = 0;
  readonly #scheduled = new Map<string, { readonly at: number; readonly name: string }>();
  readonly #started = new Map<string, number>();
  #taskSince: number | undefined;

  add(event: HistoryEvent): void {
    const at = millis(event.eventTime);
    const id = String(event.eventId);
    const { activityTaskScheduledEventAttributes: scheduled, activityTaskStartedEventAttributes: started } = event;
    if (scheduled) this.#scheduled.set(id, { at, name: scheduled.activityType?.name ?? '' });
    if (started) this.#started.set(String(started.scheduledEventId), at);
    const ended =
      event.activityTaskCompletedEventAttributes ??
      event.activityTaskFailedEventAttributes ??
      event.activityTaskTimedOutEventAttributes ??
      event.activityTaskCanceledEventAttributes;
    if (ended) this.#activityEnded(String(ended.scheduledEventId), at);
    if (event.workflowTaskScheduledEventAttributes) this.#taskSince ??= at;
    if (event.workflowTaskCompletedEventAttributes) this.#taskEnded(at);
  }

  #activityEnded(id: string, end: number): void {
    const scheduled = this.#scheduled.get(id);
    if (!scheduled) return;
    const times = this.activities.get(scheduled.name) ?? { name: scheduled.name, count: 0, workedMs: 0, waitedMs: 0 };
    this.activities.set(scheduled.name, times);
    times.count += 1;
    const start = this.#started.get(id) ?? end;
    this.intervals.push({
      from: scheduled.at,
      to: start,
      rank: RANK.waited,
      spend: (ms) => void (times.waitedMs += ms),
    });
    this.intervals.push({ from: start, to: end, rank: RANK.worked, spend: (ms) => void (times.workedMs += ms) });
  }

  #taskEnded(end: number): void {
    this.workflowTasks += 1;
    this.intervals.push({
      from: this.#taskSince ?? end,
      to: end,
      rank: RANK.workflow,
      spend: (ms) => void (this.workflowMs += ms),
    });
    this.#taskSince = undefined;
  }

  /** Adds each moment between `from` and `to` to the interval of the highest rank that contains it. */
  divide(from: number, to: number): void {
    const edges = [...new Set([from, to, ...this.intervals.flatMap((one) => [one.from, one.to])])].sort(
      (a, b) => a - b,
    );
    for (const [i, begin] of edges.entries()) {
      const end = edges[i + 1];
      if (end === undefined || begin < from || end > to) continue;
      const holding = this.intervals
        .filter((one) => one.from <= begin && end <= one.to)
        .sort((a, b) => b.rank - a.rank)[0];
      if (holding) holding.spend(end - begin);
      else this.stoodMs += end - begin;
    }
  }
}

/** The times of one ended history. A rollout with several histories needs a call for each. */
export function timesOf(events: readonly HistoryEvent[]): RolloutTimes {
  const ledger = new Ledger();
  for (const event of events) ledger.add(event);
  const [first, last] = [events[0], events.at(-1)];
  const from = first ? millis(first.eventTime) : 0;
  const to = last ? millis(last.eventTime) : 0;
  ledger.divide(from, to);
  return {
    wallMs: to - from,
    activities: [...ledger.activities.values()],
    workflowTasks: ledger.workflowTasks,
    workflowMs: ledger.workflowMs,
    stoodMs: ledger.stoodMs,
  };
}
