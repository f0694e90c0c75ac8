/** When to ask an endpoint again: as the server says, else with growing pauses. Pure. */

import type { EndpointError } from './endpoint-error.ts';

const FIRST_MS = 500;
const LONGEST_MS = 30_000;
/** A server that asks for longer is asked again by a later attempt of the activity, not by one that holds a slot. */
export const PATIENCE_MS = 60_000;

/**
 * Milliseconds to wait before try `tries + 1`; `undefined` when this attempt should end. `chance` in [0, 1) spreads
 * those that failed together.
 */
export function retryWaitMs(error: EndpointError, tries: number, maxTries: number, chance: number): number | undefined {
  if (!error.isTransient || tries >= maxTries) return undefined;
  const backoff = Math.min(LONGEST_MS, FIRST_MS * 2 ** (tries - 1)) * (0.5 + chance / 2);
  const wait = Math.max(error.retryAfterMs ?? 0, backoff);
  return wait > PATIENCE_MS ? undefined : wait;
}
