/** Asks a server that may be away for a while: what follows a run of weeks does not end because the server is started again. */

import { ServiceError } from '@temporalio/client';
import { setTimeout as sleep } from 'node:timers/promises';
import { wrongStackIn } from '../connection/stack-identity.ts';

/** Longer than a server takes to start again, on a new machine too. */
const AWAY_MS = 30 * 60_000;
const RETRY_MS = 2_000;

/** What was asked for so long was waited for: the server was there. */
const PRESENT_MS = 60_000;
/** Of gRPC: what asking again cannot change (invalid argument, permission denied, unauthenticated). */
const REFUSALS: ReadonlySet<unknown> = new Set([3, 7, 16]);

export interface Away {
  /** Absent: nobody interrupts it. */
  readonly signal?: AbortSignal;
  /** Told once for each time that the server goes away. */
  readonly onAway?: (line: string) => void;
  readonly limitMs?: number;
  readonly retryMs?: number;
  /** False: waiting keeps no process alive. */
  readonly ref?: boolean;
}

function isAbsence(error: unknown): boolean {
  return error instanceof ServiceError && !REFUSALS.has((error.cause as { readonly code?: unknown } | undefined)?.code);
}

/**
 * The answer to `ask`, which is asked again while the server does not answer; it may be an answer that takes weeks.
 * Errors: `WrongStack` where another stack's server answers; its own where the server answers or refuses, or has been away for `limitMs`; `AbortError` when `signal` fires.
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
          'Temporal does not answer: the run goes on by itself when it is back (`npx longhaul up --detach` starts the stack)',
        );
      since ??= now;
      if (now - since > limitMs) throw error;
      await sleep(retryMs, undefined, signal ? { signal, ref } : { ref });
    }
  }
}
