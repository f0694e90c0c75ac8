/**
 * When a batch goes on in a new history: always before Temporal suggests one (4,096 events), and only where a batch may
 * come to that. A short batch keeps its children in one history and hears of their ends from Temporal alone.
 */

/** Events that a rollout costs its batch: begin and end, and with gates six signals; a share of workflow tasks included. */
const EVENTS_PER_ROLLOUT = { free: 10, gated: 25 } as const;
/** What is under way when a history is full still ends in it: room for that is left below the 4,096. */
const FULL_EVENTS = 3_000;

/** Whether a batch of so many rollouts may need more than one history. */
export function isLong(rollouts: number, gates: readonly unknown[]): boolean {
  return rollouts * (gates.length > 0 ? EVENTS_PER_ROLLOUT.gated : EVENTS_PER_ROLLOUT.free) > FULL_EVENTS;
}

/** Whether a long batch lets nothing more begin in this history. */
export function isFull({ historyLength, continueAsNewSuggested }: { historyLength: number; continueAsNewSuggested: boolean }): boolean {
  return historyLength >= FULL_EVENTS || continueAsNewSuggested;
}
