/**
 * Starts a child whose id may still be taken by an earlier workflow: one that was cancelled with the previous run and
 * still releases what it holds. Waits until the id is free, for `PATIENCE_MS` at most.
 */

import { sleep } from '@temporalio/workflow';
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';

const FIRST_MS = 2000;
const LONGEST_MS = 60_000;
/** A cancelled rollout releases its sandbox within seconds, unless that sandbox's host is gone. */
export const PATIENCE_MS = 5 * 60_000;

/**
 * Milliseconds to wait after start number `tries`, if `waitedMs` have passed already; `undefined`: give up.
 * There are few starts, since each adds four events.
 */
export function pauseAfter(tries: number, waitedMs: number): number | undefined {
  const pause = Math.min(LONGEST_MS, FIRST_MS * 2 ** (tries - 1));
  return waitedMs + pause > PATIENCE_MS ? undefined : pause;
}

/**
 * `start` calls `startChild`.
 * Errors: those of `start`; `WorkflowExecutionAlreadyStartedError` if the id does not become free in time.
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
