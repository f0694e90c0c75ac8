/** Sends an activity's heartbeats while it works, and passes its cancellation on as an AbortSignal. */

import { Context } from '@temporalio/activity';
import { pausedBy } from '../store/disk-patience.ts';

const INTERVAL_MS = 2_500;

/**
 * True if the workflow cancelled the activity. False if the server gave this execution up (it timed out, or its worker
 * is stopping), and may have started another one.
 */
export function wasCancelled({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason instanceof Error && reason.message === 'CANCELLED';
}

/** True if this execution ends because its worker is being stopped. */
export function wasStopped({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason instanceof Error && reason.message === 'WORKER_SHUTDOWN';
}

/**
 * Runs `work`, in an activity. Heartbeats carry the last detail given to `progress`, or why the work waits for a disk.
 */
export async function withHeartbeat<T>(
  work: (signal: AbortSignal, progress: (detail: unknown) => void) => Promise<T>,
): Promise<T> {
  const context = Context.current();
  let detail: unknown = null;
  const timer = setInterval(() => context.heartbeat(pausedBy() ?? detail), INTERVAL_MS);
  try {
    return await work(context.cancellationSignal, (next) => {
      detail = next;
    });
  } finally {
    clearInterval(timer);
  }
}
