/**
 * How long an activity is retried while it fails with one class. The time of the attempts that failed with this class
 * counts, and the pauses between two of them. Lost workers and waits for a disk do not count.
 */

import type { Info } from '@temporalio/activity';
import type { ApplicationFailure } from '@temporalio/common';
import type { FailureClass } from '../protocol/finish-reason.ts';
import type { Store } from '../store/store.ts';
import { classOfError } from '../protocol/failure-policy.ts';
import { type OwnClock, scheduled } from './own-time.ts';
import type { TryRecord } from '../protocol/records.ts';
import { keys } from '../protocol/record-keys.ts';

export interface Patience {
  readonly failure: FailureClass;
  readonly ms: number;
  /** The message of the final failure, made from that of the last attempt. */
  readonly message: (message: string) => string;
}

/** One execution of a scheduled activity. */
export interface Try {
  readonly info: Info;
  /** Runs since the execution started. */
  readonly clock: OwnClock;
}

/** A shorter remaining time counts as spent. */
const LEAST_MS = 100;
/** An attempt reports its own end this long before the server would end it. */
const REPORT_MS = 30_000;

/** True if the failure counts against this patience. */
export function isOf({ failure }: Patience, { end, error }: Pick<TryRecord, 'end' | 'error'>): boolean {
  return end === 'failed' && classOfError(error) === failure;
}

/** Milliseconds spent before this attempt started. Errors: those of the store. */
export async function spentBefore(
  patience: Patience,
  store: Pick<Store, 'list'>,
  { info, clock }: Try,
): Promise<number> {
  if (info.attempt < 2) return 0;
  const tries = await store.list<TryRecord>(keys.tries(info));
  const last = tries.findLast(({ key, value }) => key < keys.oneTry(info) && isOf(patience, value));
  if (!last) return 0;
  const wasNext = last.key === keys.oneTry({ ...info, attempt: info.attempt - 1 });
  const pause = wasNext ? Math.max(0, clock.begun - Date.parse(last.value.at)) : 0;
  return (last.value.spentMs ?? 0) + pause;
}

/** True if the patience ends before another attempt would start. */
export function isSpent({ ms }: Patience, spentMs: number, { nextRetryDelay }: ApplicationFailure): boolean {
  return spentMs + (typeof nextRetryDelay === 'number' ? nextRetryDelay : 0) + LEAST_MS >= ms;
}

/**
 * Milliseconds that this attempt may take, so that it can still report what it waited for. Errors: those of the store.
 */
export async function patienceLeft(patience: Patience, store: Pick<Store, 'list'>, clock: OwnClock): Promise<number> {
  const info = scheduled();
  if (!info) return Number.POSITIVE_INFINITY;
  const left = patience.ms - (await spentBefore(patience, store, { info, clock }));
  return Math.min(left, Math.max(REPORT_MS, info.startToCloseTimeoutMs - REPORT_MS));
}
