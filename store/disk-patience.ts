/**
 * Work that stands still while the disk is full or read-only, and goes on when it is not: nothing is given up for what
 * passes. What it waits for can be asked at any time; the wait is bounded, and then fails by its class.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { classifyDiskError, isTransient } from './disk-errors.ts';

/** First and longest pause between two tries, and how long one call waits at most; milliseconds. */
export interface Patience {
  readonly firstMs: number;
  readonly longestMs: number;
  readonly totalMs: number;
  /** Hears once of every wait, and of its end. */
  readonly say?: (line: string) => void;
}

/** Shorter than the deadline of any activity that is waited for, so that a wait fails by its own class and is tried again by Temporal. */
export const WORKER_PATIENCE: Patience = { firstMs: 500, longestMs: 15_000, totalMs: 8 * 60_000 };

let waits = 0;
let reason: string | null = null;
/** Milliseconds of waits that are over, and when the one under way began; two at a time are one. */
let waitedMs = 0;
let since = 0;

/** Milliseconds that this process has waited for a disk, up to now. */
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

/** Why work of this process stands still at the moment; `null`: it does not. */
export function pausedBy(): string | null {
  return waits > 0 ? reason : null;
}

/**
 * Does `work`, again and again while the disk does not let it; `work` must be safe to repeat.
 * Errors: those of `work`, disk errors by their class.
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
        if (waited) patience?.say?.(`${place}: goes on`);
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
