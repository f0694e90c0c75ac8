/**
 * How often one scheduled activity is attempted. Temporal retries without a limit; the limits are here: one for
 * failures that were thrown, one for workers that ended or were silent. A lost worker never counts as a failure.
 */

import type { Info } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import type { Store } from '../store/store.ts';
import {
  classOfError,
  FAILURES,
  LOST_WORKERS,
  RETRIES,
  type RetryPlace,
  TRIES_SPENT,
} from '../protocol/failure-policy.ts';
import { withFailureMapping } from './failure-mapping.ts';
import { wasCancelled, wasStopped, withHeartbeat } from './heartbeat.ts';
import { orAborted } from './or-aborted.ts';
import { isOf, isSpent, type Patience, spentBefore, type Try } from './own-patience.ts';
import { OwnClock, scheduled, setActivityDeadline } from './own-time.ts';
import type { TryRecord } from '../protocol/records.ts';
import { keys } from '../protocol/record-keys.ts';
import { watchStandstill } from './standstill.ts';

/** Too many workers ended during the same activity: it may be what ends them. */
export class WorkersLost extends Error {
  override readonly name = 'WorkersLost';

  constructor({ activityType, workflowExecution }: Info, lost: number) {
    super(
      `${activityType} of ${workflowExecution?.workflowId ?? 'no workflow'}: ${lost} workers in a row ended, ` +
        'froze or were silent for 15 s while they ran it',
    );
  }
}

/** An execution reached its time limit. It reports this itself, shortly before the server would give it up. */
class TookTooLong extends Error {
  override readonly name = 'TookTooLong';
}

export interface Limits {
  readonly store: Pick<Store, 'putOnce' | 'list'>;
  readonly place: RetryPlace;
  /** Limits failures of one class by time, not by number. Failures of other classes have the place's limit. */
  readonly patience?: Patience;
}

type Work<T> = (signal: AbortSignal, progress: (detail: unknown) => void) => Promise<T>;

/** The number of executions that recorded how they ended. */
async function onRecord(store: Pick<Store, 'list'>, info: Info): Promise<number> {
  return (await store.list<TryRecord>(keys.tries(info))).length;
}

/**
 * Called before an execution starts work that is not recorded. Each scheduling of an activity counts from zero, so a
 * resumed rollout has new limits. Errors: `WorkersLost`.
 */
export async function checkWorkersLost(store: Pick<Store, 'list'>): Promise<void> {
  const info = scheduled();
  if (!info || info.attempt < 2) return;
  const known = await onRecord(store, info);
  const lost = info.attempt - 1 - known;
  if (lost >= LOST_WORKERS) throw new WorkersLost(info, lost);
}

function note(
  { store }: Limits,
  info: Info,
  end: TryRecord['end'],
  { name, message, ...spent }: { readonly name: string; readonly message: string } & Pick<TryRecord, 'spentMs'>,
): Promise<TryRecord> {
  return store.putOnce<TryRecord>(keys.oneTry(info), {
    end,
    error: name,
    message: message.slice(0, 300),
    at: new Date().toISOString(),
    ...spent,
  });
}

const isOfStore = (name = ''): boolean => classOfError(name) === 'store-unavailable';

/** True if this execution's failure reaches the limit. Errors: those of the store. */
async function isLast(failure: ApplicationFailure, limits: Limits, one: Try): Promise<boolean> {
  const { store, place, patience } = limits;
  const most = RETRIES[place].attempts;
  const { info, clock } = one;
  const { type, message } = failure;
  const name = type ?? '';
  // Failures of the store cannot be counted in it, so Temporal's attempts count, also lost workers: no such class
  // masks.
  if (isOfStore(name)) return info.attempt - (await onRecord(store, info)) >= most;
  if (patience && isOf(patience, { end: 'failed', error: name })) {
    const spentMs = Math.round((await spentBefore(patience, store, one)) + clock.ms);
    await note(limits, info, 'failed', { name, message, spentMs });
    return isSpent(patience, spentMs, failure);
  }
  await note(limits, info, 'failed', { name, message });
  const tries = await store.list<TryRecord>(keys.tries(info));
  return tries.filter(({ value }) => value.end === 'failed' && !(patience && isOf(patience, value))).length >= most;
}

interface Counted {
  readonly failure: ApplicationFailure;
  readonly last: boolean;
}

/**
 * If the store fails, its failure replaces the one that it cannot count: it holds the rollout, and does not mask it.
 */
async function counted(failure: ApplicationFailure, limits: Limits, one: Try): Promise<Counted> {
  const { store, place, patience } = limits;
  const { info } = one;
  try {
    return { failure, last: await withFailureMapping(() => isLast(failure, limits, one)) };
  } catch (error) {
    const holds = error instanceof ApplicationFailure && FAILURES[classOfError(error.type ?? '')].recovery === 'hold';
    // The start of the failures is unknown: all time since the activity was scheduled counts.
    if (!holds && patience && isOf(patience, { end: 'failed', error: failure.type ?? '' }))
      return { failure, last: isSpent(patience, Date.now() - info.scheduledTimestampMs, failure) };
    const failures = info.attempt - (await onRecord(store, info).catch(() => 0));
    return { failure: holds ? error : failure, last: failures >= RETRIES[place].attempts };
  }
}

/** The error that a failed execution reports: non-retryable if the limit is reached. */
export async function reported(error: unknown, limits: Limits, one: Try): Promise<unknown> {
  if (!(error instanceof ApplicationFailure) || error.nonRetryable) return error;
  const { failure, last } = await counted(error, limits, one);
  if (!last || failure.nonRetryable) return failure;
  const { patience } = limits;
  const { message, type, cause } = failure;
  const name = type ?? '';
  const final = { type: name, nonRetryable: true, details: [TRIES_SPENT] };
  // Only the innermost message of a chain is shown.
  if (patience && isOf(patience, { end: 'failed', error: name }))
    return ApplicationFailure.create({ ...final, message: patience.message(message) });
  return ApplicationFailure.create({ ...final, message, ...(cause && { cause }) });
}

/** The time before the server's limit in which an execution reports itself that it took too long. */
const REPORT_MS = 5_000;

/** Milliseconds that it may take; `undefined` if the time of all its attempts ends first, which is another failure. */
function ownLimitMs({
  startToCloseTimeoutMs,
  scheduleToCloseTimeoutMs,
  scheduledTimestampMs,
}: Info): number | undefined {
  const left = scheduledTimestampMs + scheduleToCloseTimeoutMs - Date.now();
  return startToCloseTimeoutMs > 2 * REPORT_MS && left > startToCloseTimeoutMs
    ? startToCloseTimeoutMs - REPORT_MS
    : undefined;
}

async function withinLimit<T>(info: Info, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const ms = ownLimitMs(info);
  if (ms === undefined) return work(signal);
  setActivityDeadline(info, Date.now() + ms);
  const over = new AbortController();
  const timer = setTimeout(
    () => over.abort(new TookTooLong(`${info.activityType} took longer than ${ms / 1000} s`)),
    ms,
  );
  try {
    return await orAborted(() => work(AbortSignal.any([signal, over.signal])), over.signal);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Runs the body of an activity, with heartbeats. Errors are mapped to their class, and count as failures if the server
 * still waits for this execution. An execution that the server has given up, such as one of a frozen process, counts as
 * a lost worker. One that was cancelled, or that ends because its worker stops, counts as neither.
 */
export async function tried<T>(limits: Limits, work: Work<T>): Promise<T> {
  const info = scheduled();
  if (!info) return withFailureMapping(() => withHeartbeat(work));
  const stoodStill = watchStandstill();
  const clock = new OwnClock();
  return withHeartbeat(async (signal, progress) => {
    const spare = () => {
      if (!wasCancelled(signal) && !wasStopped(signal)) return;
      // If this cannot be written, the execution counts as a lost worker, for which the limit is high.
      note(limits, info, 'spared', signal.reason as Error).catch(() => undefined);
    };
    signal.addEventListener('abort', spare, { once: true });
    try {
      return await withFailureMapping(() => withinLimit(info, signal, (own) => work(own, progress)));
    } catch (error) {
      if (signal.aborted || stoodStill()) throw error;
      throw await reported(error, limits, { info, clock });
    } finally {
      signal.removeEventListener('abort', spare);
    }
  });
}
