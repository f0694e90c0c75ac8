/** Keeps an activity's heartbeat going while it works, and hands its cancellation on as an AbortSignal. */

import { Context } from '@temporalio/activity';
import { pausedBy } from '../store/disk-patience.ts';

const INTERVAL_MS = 2_500;

/**
 * Whether the workflow asked for the end, as opposed to a server that gave this execution up (it timed out, or its
 * worker is stopping) and may have begun another one.
 */
export function wasCancelled({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason instanceof Error && reason.message === 'CANCELLED';
}

/** Whether this execution ends because its worker is being stopped. */
export function wasStopped({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason instanceof Error && reason.message === 'WORKER_SHUTDOWN';
}

/** Runs `work`; heartbeats carry what `progress` last said, or why the disk holds work up. Outside of an activity there is nobody to tell. */
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
