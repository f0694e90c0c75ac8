/**
 * When a batch continues in a new history: always before Temporal suggests one (4,096 events). A batch that may need
 * more than one is long: its rollouts report their ends to whatever history is current by then. A short batch receives
 * its rollouts' ends from Temporal alone, in the history that started them: it starts no more of these than the history
 * has room for, and then becomes long.
 */

/**
 * Events that one rollout adds to its batch's history: start and end, and six signals with gates; with its share of
 * workflow tasks.
 */
const EVENTS_PER_ROLLOUT = { free: 10, gated: 25 } as const;
/** The same at most: each event has its own workflow task, and the rollout fails and is recorded alone. */
const MOST_EVENTS_PER_ROLLOUT = { free: 15, gated: 33 } as const;
/** A history is full at this many events. Work in flight then still ends in it, which the room up to 4,096 is for. */
const FULL_EVENTS = 3_000;
/** Events that a start which is not confirmed yet still adds: the confirmation, at most with its own workflow task. */
const EVENTS_PER_ANSWER = 4;

/** The length of the current history. */
export interface HistoryLength {
  readonly historyLength: number;
  readonly continueAsNewSuggested: boolean;
}

const kindOf = (gates: readonly unknown[]) => (gates.length > 0 ? 'gated' : 'free');

/** True if a batch of so many rollouts may need more than one history. */
export function isLong(rollouts: number, gates: readonly unknown[]): boolean {
  return rollouts * EVENTS_PER_ROLLOUT[kindOf(gates)] > FULL_EVENTS;
}

/** True if this history has room for one more rollout that must end in it, beside the `bound` ones. */
export function hasRoom(
  bound: number,
  { historyLength, continueAsNewSuggested }: HistoryLength,
  gates: readonly unknown[],
): boolean {
  return !continueAsNewSuggested && historyLength + (bound + 1) * MOST_EVENTS_PER_ROLLOUT[kindOf(gates)] <= FULL_EVENTS;
}

/** True if a long batch starts nothing more in this history. `beginning`: starts that are not confirmed yet. */
export function isFull({ historyLength, continueAsNewSuggested }: HistoryLength, beginning = 0): boolean {
  return historyLength + beginning * EVENTS_PER_ANSWER >= FULL_EVENTS || continueAsNewSuggested;
}
