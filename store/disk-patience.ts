/**
 * Work that waits while the disk is full or read-only or the store is locked, and then continues: a transient problem
 * fails nothing. The reason of the wait can be read at any time. The wait is bounded; then the work fails with the
 * error's class.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { classifyDiskError, isTransient } from './disk-errors.ts';

/** First and longest pause between two tries, and the longest wait of one call. In milliseconds. */
export interface Patience {
  readonly firstMs: number;
  readonly longestMs: number;
  readonly totalMs: number;
  /** Called once for each wait, and once at its end. */
  readonly say?: (line: string) => void;
}

/** Shorter than any activity's deadline, so that a wait fails with its own class and Temporal retries the activity. */
export const WORKER_PATIENCE: Patience = { firstMs: 500, longestMs: 15_000, totalMs: 8 * 60_000 };

let waits = 0;
let reason: string | null = null;
/** Milliseconds of finished waits, and the start of the current one. Waits at the same time count once. */
let waitedMs = 0;
let since = 0;

/** Milliseconds that this process has waited for a disk so far. */
export function waitedForDiskMs(): number {
  return waitedMs + (waits > 0 ? performance.now() - since : 0);
}

function begin(): void {
  if (waits === 0) since = performance.now();
  waits += 1;
}

function end(): void {
  waits -= 1;
  if (waits === 0) waitedMs += performance.now() - since;
}

/** Why work of this process waits for a disk now. `null`: it does not. */
export function pausedBy(): string | null {
  return waits > 0 ? reason : null;
}

/**
 * Runs `work`, and retries it while a disk error is transient. `work` must be safe to repeat.
 * Errors: those of `work`; disk errors by their class.
 */
export async function retryWhileDiskUnavailable<T>(
  place: string,
  patience: Patience | undefined,
  work: () => Promise<T>,
): Promise<T> {
  const until = Date.now() + (patience?.totalMs ?? 0);
  let pause = patience?.firstMs ?? 0;
  let waited = false;
  try {
    for (;;) {
      try {
        const result = await work();
        if (waited) patience?.say?.(`${place}: continues`);
        return result;
      } catch (thrown) {
        const error = classifyDiskError(thrown, place);
        if (patience === undefined || !isTransient(error) || Date.now() + pause > until) throw error;
        reason = `paused: ${error.message}`;
        if (!waited) patience.say?.(`${error.name}: ${error.message}`);
        if (!waited) begin();
        waited = true;
        await sleep(pause);
        pause = Math.min(pause * 2, patience.longestMs);
      }
    }
  } finally {
    if (waited) end();
  }
}
