/** Repeats a request while the server does not answer: clients that follow a run for weeks survive server restarts. */

import { ServiceError } from '@temporalio/client';
import { setTimeout as sleep } from 'node:timers/promises';
import { wrongStackIn } from '../connection/stack-identity.ts';

/** Longer than a server takes to restart, even on a new machine. */
const AWAY_MS = 30 * 60_000;
const RETRY_MS = 2_000;

/** A request that failed after at least this long had reached the server: the absence is counted from then. */
const PRESENT_MS = 60_000;
/** gRPC codes that a retry cannot change (invalid argument, permission denied, unauthenticated). */
const REFUSALS: ReadonlySet<unknown> = new Set([3, 7, 16]);

export interface Away {
  /** Aborts the wait; absent: nothing interrupts it. */
  readonly signal?: AbortSignal;
  /** Called once for each absence of the server. */
  readonly onAway?: (line: string) => void;
  readonly limitMs?: number;
  readonly retryMs?: number;
  /** False: the wait does not keep the process alive. */
  readonly ref?: boolean;
}

function isAbsence(error: unknown): boolean {
  return error instanceof ServiceError && !REFUSALS.has((error.cause as { readonly code?: unknown } | undefined)?.code);
}

/**
 * The answer to `ask`, which is repeated while the server does not answer; the answer may take weeks.
 * Errors: `WrongStack` if another stack's server answers; the error of `ask` if the server answers with one, refuses,
 * or has been away for `limitMs`; `AbortError` when `signal` fires.
 */
export async function whileAway<T>(
  ask: () => Promise<T>,
  { signal, onAway, limitMs = AWAY_MS, retryMs = RETRY_MS, ref = true }: Away = {},
): Promise<T> {
  let since: number | undefined;
  for (;;) {
    const asked = performance.now();
    try {
      return await ask();
    } catch (error) {
      const wrong = wrongStackIn(error);
      if (wrong) throw wrong;
      if (!isAbsence(error)) throw error;
      const now = performance.now();
      if (now - asked >= PRESENT_MS) since = undefined;
      if (since === undefined)
        onAway?.(
          'Temporal does not answer: the run continues by itself when it is back (start the stack: ' +
            'npx longhaul up --detach)',
        );
      since ??= now;
      if (now - since > limitMs) throw error;
      await sleep(retryMs, undefined, signal ? { signal, ref } : { ref });
    }
  }
}
