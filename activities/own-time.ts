/**
 * The time that one try of an activity has, and what its machines took of it: the wait for a disk, and tries before it
 * that failed or lost their worker, are never a rollout's time.
 */

import { asyncLocalStorage, type Info } from '@temporalio/activity';
import { waitedForDiskMs } from '../store/disk-patience.ts';
import { orAborted } from './or-aborted.ts';

/** What was left of the rollout's deadline has passed within one try. */
export class DeadlinePassed extends Error {
  override readonly name = 'DeadlinePassed';
}

/** `undefined` outside of Temporal, where nothing is tried again. */
export function scheduled(): Info | undefined {
  const info = asyncLocalStorage.getStore()?.info;
  return info?.activityId === undefined ? undefined : info;
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

/** Pauses between two reads of a clock, which may stand still: the shortest, and the longest that a timer has. */
const SHORTEST_MS = 20;
const LONGEST_MS = 2 ** 31 - 1;

/**
 * Does `work` for `ms` by `clock`; past that its signal is aborted, and it fails with what `over` gives, however long it
 * still runs. Errors: those of `work`; the reason of `signal`.
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

/** What of the time since the activity was scheduled its machines took; the wait of a first try for a free worker is none of it. */
function lostMs(clock: OwnClock): number {
  const info = scheduled();
  const earlier = info && info.attempt > 1 ? Math.max(0, clock.begun - info.scheduledTimestampMs) : 0;
  return Math.round(earlier + clock.waitedMs);
}

/**
 * One try of a rollout's activity, which has what is left of the deadline for itself, and reports the time that was lost beside it.
 * Errors: those of `work`; `DeadlinePassed`; the reason of `signal`.
 */
export async function inItsTime<T extends object>(
  withinMs: number | undefined,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T & { readonly lostMs?: number }> {
  const clock = new OwnClock();
  const ms = withinMs ?? Number.POSITIVE_INFINITY;
  const over = () => new DeadlinePassed(`the ${ms / 1000} s that were left of agent.deadlineSeconds have passed`);
  const outcome = await within({ ms, clock, over }, signal, work);
  const lost = lostMs(clock);
  return lost > 0 ? { ...outcome, lostMs: lost } : outcome;
}
