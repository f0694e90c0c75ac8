/**
 * How often one scheduled activity is tried. Temporal retries without a limit; the limits are here, one for failures that
 * were thrown, one for workers that ended or were silent. A worker that is lost never spends what failures may spend.
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
import { withFailureMapping } from './failures.ts';
import { wasCancelled, wasStopped, withHeartbeat } from './heartbeat.ts';
import { orAborted } from './or-aborted.ts';
import { isOf, isSpent, type Patience, spentBefore, type Try } from './own-patience.ts';
import { OwnClock, scheduled } from './own-time.ts';
import { keys, type TryRecord } from '../protocol/records.ts';
import { watchStandstill } from './standstill.ts';

/** Too many workers ended while they did the same thing: it may be what ends them. */
export class WorkersLost extends Error {
  override readonly name = 'WorkersLost';

  constructor({ activityType, workflowExecution }: Info, lost: number) {
    super(
      `${activityType} of ${workflowExecution?.workflowId ?? 'no workflow'}: ${lost} workers ended, stood still or were silent for 15 s in it, one after the other`,
    );
  }
}

/** An execution that would be given up by the server in a moment, and says so before. */
class TookTooLong extends Error {
  override readonly name = 'TookTooLong';
}

export interface Limits {
  readonly store: Pick<Store, 'putOnce' | 'list'>;
  readonly place: RetryPlace;
  /** With failures of one class, however many they are; those of all others are the place's. */
  readonly patience?: Patience;
}

type Work<T> = (signal: AbortSignal, progress: (detail: unknown) => void) => Promise<T>;

/** Executions that said how they ended. */
async function onRecord(store: Pick<Store, 'list'>, info: Info): Promise<number> {
  return (await store.list<TryRecord>(keys.tries(info))).length;
}

/**
 * Before an execution begins what is not on record. Each scheduling of an activity counts anew: a rollout that is resumed
 * has new budgets. Errors: `WorkersLost`.
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

/** Whether this execution's failure is the last that may be. Errors: those of the store. */
async function isLast(failure: ApplicationFailure, limits: Limits, one: Try): Promise<boolean> {
  const { store, place, patience } = limits;
  const most = RETRIES[place].attempts;
  const { info, clock } = one;
  const { type, message } = failure;
  const name = type ?? '';
  // What cannot be counted in the store is counted by Temporal, lost workers with it: such a class masks no rollout.
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

/** Where the store fails, its own failure takes the place of one that it cannot count: it holds the rollout, and masks none. */
async function counted(failure: ApplicationFailure, limits: Limits, one: Try): Promise<Counted> {
  const { store, place, patience } = limits;
  const { info } = one;
  try {
    return { failure, last: await withFailureMapping(() => isLast(failure, limits, one)) };
  } catch (error) {
    const holds = error instanceof ApplicationFailure && FAILURES[classOfError(error.type ?? '')].recovery === 'hold';
    // Nothing says when it began: it counts from the first try on.
    if (!holds && patience && isOf(patience, { end: 'failed', error: failure.type ?? '' }))
      return { failure, last: isSpent(patience, Date.now() - info.scheduledTimestampMs, failure) };
    const failures = info.attempt - (await onRecord(store, info).catch(() => 0));
    return { failure: holds ? error : failure, last: failures >= RETRIES[place].attempts };
  }
}

/** What an execution that failed is reported with: for good, where it was the last that may. */
export async function reported(error: unknown, limits: Limits, one: Try): Promise<unknown> {
  if (!(error instanceof ApplicationFailure) || error.nonRetryable) return error;
  const { failure, last } = await counted(error, limits, one);
  if (!last || failure.nonRetryable) return failure;
  const { patience } = limits;
  const { message, type, cause } = failure;
  const name = type ?? '';
  const final = { type: name, nonRetryable: true, details: [TRIES_SPENT] };
  // The innermost message is what is shown.
  if (patience && isOf(patience, { end: 'failed', error: name }))
    return ApplicationFailure.create({ ...final, message: patience.told(message) });
  return ApplicationFailure.create({ ...final, message, ...(cause && { cause }) });
}

/** In which an execution that is over its time reports that itself. */
const REPORT_MS = 5_000;

/** Milliseconds that it may take; `undefined` where the time of all its tries ends first, which is another failure. */
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
 * The body of an activity, with its heartbeat. Errors leave it classified; one that the server waits for counts as a failure.
 * What the server has given up, as that of a worker that stood still, is a lost worker; what was cancelled, or is ended
 * with its worker, is neither.
 */
export async function tried<T>(limits: Limits, work: Work<T>): Promise<T> {
  const info = scheduled();
  if (!info) return withFailureMapping(() => withHeartbeat(work));
  const stoodStill = watchStandstill();
  const clock = new OwnClock();
  return withHeartbeat(async (signal, progress) => {
    const spare = () => {
      if (!wasCancelled(signal) && !wasStopped(signal)) return;
      // Where even that cannot be written it counts as a lost worker, of which many may be lost.
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
