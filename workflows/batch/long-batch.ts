/**
 * When a batch goes on in a new history: always before Temporal suggests one (4,096 events). A batch that may come to
 * that is a long one, whose rollouts tell their end to whichever history there is by then. A short one hears of its
 * rollouts' ends from Temporal alone, in the history that began them: it begins no more of these than that has room for,
 * and then turns long.
 */

/** Events that a rollout costs its batch: begin and end, and with gates six signals; a share of workflow tasks included. */
const EVENTS_PER_ROLLOUT = { free: 10, gated: 25 } as const;
/** The same at worst: each event has a workflow task of its own, and the rollout fails, which is put on record by itself. */
const MOST_EVENTS_PER_ROLLOUT = { free: 15, gated: 33 } as const;
/** What is under way when a history is full still ends in it: room for that is left below the 4,096. */
const FULL_EVENTS = 3_000;
/** What a begin that is not answered yet adds to the history: the answer, with a workflow task of its own at worst. */
const EVENTS_PER_ANSWER = 4;

/** Of the present history. */
export interface HistoryLength {
  readonly historyLength: number;
  readonly continueAsNewSuggested: boolean;
}

const kindOf = (gates: readonly unknown[]) => (gates.length > 0 ? 'gated' : 'free');

/** Whether a batch of so many rollouts may need more than one history. */
export function isLong(rollouts: number, gates: readonly unknown[]): boolean {
  return rollouts * EVENTS_PER_ROLLOUT[kindOf(gates)] > FULL_EVENTS;
}

/** Whether this history has room for one more rollout that must end in it, beside `bound` that must. */
export function hasRoom(
  bound: number,
  { historyLength, continueAsNewSuggested }: HistoryLength,
  gates: readonly unknown[],
): boolean {
  return !continueAsNewSuggested && historyLength + (bound + 1) * MOST_EVENTS_PER_ROLLOUT[kindOf(gates)] <= FULL_EVENTS;
}

/** Whether a long batch lets nothing more begin in this history; of `beginning` the answer is still to come. */
export function isFull({ historyLength, continueAsNewSuggested }: HistoryLength, beginning = 0): boolean {
  return historyLength + beginning * EVENTS_PER_ANSWER >= FULL_EVENTS || continueAsNewSuggested;
}
