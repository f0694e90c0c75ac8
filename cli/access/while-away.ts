/** Asks a server that may be away for a while: what follows a run of weeks does not end because the server is started again. */

import { ServiceError } from '@temporalio/client';
import { setTimeout as sleep } from 'node:timers/promises';

/** Longer than a server takes to start again, on a new machine too. */
const AWAY_MS = 30 * 60_000;
const RETRY_MS = 2_000;

export interface Away {
  readonly signal: AbortSignal;
  /** Told once for each time that the server goes away. */
  readonly onAway: (line: string) => void;
  readonly limitMs?: number;
  readonly retryMs?: number;
}

/**
 * The answer to `ask`, which is asked again while the server does not answer.
 * Errors: its own where the server answers, or has been away for `limitMs`; `AbortError` when `signal` fires.
 */
export async function whileAway<T>(ask: () => Promise<T>, { signal, onAway, limitMs = AWAY_MS, retryMs = RETRY_MS }: Away): Promise<T> {
  const begun = Date.now();
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof ServiceError) || Date.now() - begun > limitMs) throw error;
      if (tries === 1) onAway('Temporal does not answer: the run goes on by itself when it is back (`npx longhaul up --detach` starts the stack)');
      await sleep(retryMs, undefined, { signal });
    }
  }
}
