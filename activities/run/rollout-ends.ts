/**
 * Ends of rollouts in the append-only table: every rollout has one, the first that was said. A worker that was cut off
 * may come back with another end after the run has moved on; what is on record then stands, and the refused
 * word is kept beside it as `end-refused`.
 */

import type { RolloutEvent, RolloutEventName, Store } from '../../store/store.ts';
import { keys } from '../records.ts';

export interface RolloutEnd extends RolloutEvent {
  readonly event: Extract<RolloutEventName, 'trained' | 'masked' | 'dropped' | 'evaluated'>;
}

function wordFor({ event, detail }: RolloutEnd): string {
  return detail ? `${event} ${detail}` : event;
}

/** A retry that says the same end again has ended nothing twice. */
function same(one: RolloutEnd, other: RolloutEnd): boolean {
  return wordFor(one) === wordFor(other);
}

export async function recordEnds(store: Store, ends: readonly RolloutEnd[]): Promise<void> {
  const said: RolloutEvent[] = [];
  for (const end of ends) {
    const kept = await store.putOnce(keys.end(end.rollout), end);
    said.push(kept);
    if (!same(kept, end)) said.push({ ...end, event: 'end-refused', detail: wordFor(end) });
  }
  await store.append(said);
}
