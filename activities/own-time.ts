/**
 * The time that one attempt of an activity has, and how much of it machines took: waits for a disk, and earlier
 * attempts that failed or lost their worker, never count as a rollout's time.
 */

import { asyncLocalStorage, type Info } from '@temporalio/activity';
import { waitedForDiskMs } from '../store/disk-patience.ts';
import { orAborted } from './or-aborted.ts';

/** The remaining time until the rollout's deadline has passed within one attempt. */
export class DeadlinePassed extends Error {
  override readonly name = 'DeadlinePassed';
}

/** The current activity; `undefined` outside of Temporal, where nothing is retried. */
export function scheduled(): Info | undefined {
  const info = asyncLocalStorage.getStore()?.info;
  return info?.activityId === undefined ? undefined : info;
}

const deadlines = new WeakMap<Info, number>();

/** Keeps when an execution must have ended, in milliseconds since the epoch. */
export function setActivityDeadline(info: Info, at: number): void {
  deadlines.set(info, at);
}

/** When the current execution must have ended, in milliseconds since the epoch. Infinity if it has no limit. */
export function activityDeadline(): number {
  const info = scheduled();
  return (info && deadlines.get(info)) ?? Number.POSITIVE_INFINITY;
}

/** Milliseconds since it was started; a wait for a disk does not count. */
export class OwnClock {
  readonly #begun = Date.now();
  readonly #waited = waitedForDiskMs();

  /** Milliseconds since the epoch. */
  get begun(): number {
    return this.#begun;
  }

  get waitedMs(): number {
    return waitedForDiskMs() - this.#waited;
  }

  get ms(): number {
    return Date.now() - this.#begun - this.waitedMs;
  }
}

/** The shortest and the longest pause between two reads of a clock, which may stop. The longest is that of a timer. */
const SHORTEST_MS = 20;
const LONGEST_MS = 2 ** 31 - 1;

/**
 * Does `work` for at most `ms` by `clock`. After that its signal is aborted, and the error of `over` is thrown, however
 * long the work still runs. Errors: those of `work`; the reason of `signal`.
 */
export async function within<T>(
  { ms, clock, over }: { readonly ms: number; readonly clock: OwnClock; readonly over: () => Error },
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  if (ms === Number.POSITIVE_INFINITY) return work(signal);
  const end = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const look = () => {
    const left = ms - clock.ms;
    if (left <= 0) end.abort(over());
    else timer = setTimeout(look, Math.min(Math.max(left, SHORTEST_MS), LONGEST_MS));
  };
  look();
  try {
    return await orAborted(() => work(AbortSignal.any([signal, end.signal])), end.signal);
  } finally {
    clearTimeout(timer);
  }
}

/** The time since the activity was scheduled that machines took, without a first attempt's wait for a free worker. */
function lostMs(clock: OwnClock): number {
  const info = scheduled();
  const earlier = info && info.attempt > 1 ? Math.max(0, clock.begun - info.scheduledTimestampMs) : 0;
  return Math.round(earlier + clock.waitedMs);
}

/**
 * One attempt of a rollout's activity: it has all the remaining time until the deadline, and also reports the time that
 * machines took. Errors: those of `work`; `DeadlinePassed`; the reason of `signal`.
 */
export async function inItsTime<T extends object>(
  withinMs: number | undefined,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T & { readonly lostMs?: number }> {
  const clock = new OwnClock();
  const ms = withinMs ?? Number.POSITIVE_INFINITY;
  const over = () => new DeadlinePassed(`the remaining ${ms / 1000} s of agent.deadlineSeconds have passed`);
  const outcome = await within({ ms, clock, over }, signal, work);
  const lost = lostMs(clock);
  return lost > 0 ? { ...outcome, lostMs: lost } : outcome;
}
