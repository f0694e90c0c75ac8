/**
 * Starts a child whose id may still be taken: by one of the same id that was cancelled with the run before and that
 * releases what it holds. It waits until the id is free, and not for longer than `PATIENCE_MS`.
 */

import { sleep } from '@temporalio/workflow';
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';

const FIRST_MS = 2000;
const LONGEST_MS = 60_000;
/** A cancelled rollout releases its sandbox within seconds, unless that sandbox's host is gone. */
export const PATIENCE_MS = 5 * 60_000;

/** Milliseconds to wait after try `tries`, having waited for `waitedMs`; `undefined` when it is no use any more. Few tries: each is four events. */
export function pauseAfter(tries: number, waitedMs: number): number | undefined {
  const pause = Math.min(LONGEST_MS, FIRST_MS * 2 ** (tries - 1));
  return waitedMs + pause > PATIENCE_MS ? undefined : pause;
}

/**
 * `start` is a call of `startChild`.
 * Errors: its own; `WorkflowExecutionAlreadyStartedError` where the id is not free in time.
 */
export async function whenFree<T>(start: () => Promise<T>): Promise<T> {
  for (let tries = 1, waited = 0; ; tries += 1) {
    try {
      return await start();
    } catch (error) {
      const pause = error instanceof WorkflowExecutionAlreadyStartedError ? pauseAfter(tries, waited) : undefined;
      if (pause === undefined) throw error;
      await sleep(pause);
      waited += pause;
    }
  }
}
