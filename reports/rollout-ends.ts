/**
 * Ends of rollouts in the append-only table: every rollout has one, the first that was said. A worker that was cut off
 * may come back with another end after the run has moved on; what is on record then stands, and the refused
 * word is kept beside it as `end-refused`. What a run that fails or is cancelled leaves unfinished is masked by the run's
 * own end, and has none in the table: the run may be begun again, and then goes on with it.
 */

import type { RolloutEvent, RolloutEventName, Store } from '../store/store.ts';
import { keys } from '../protocol/records.ts';
import { endOfRun, wasStopped } from './run-end.ts';

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

const ENDS: ReadonlySet<RolloutEventName> = new Set(['trained', 'masked', 'dropped', 'evaluated']);

/** Rollouts that were dispatched and have no end in the table, by their last attempt. */
export function unfinishedOf(events: readonly RolloutEvent[]): RolloutEvent[] {
  const open = new Map<string, RolloutEvent>();
  for (const event of events) if (event.event === 'dispatched') open.set(event.rollout, event);
  for (const { event, rollout } of events) if (ENDS.has(event)) open.delete(rollout);
  return [...open.values()];
}

/** The run's part of the table, and the ends that follow from its own: what its account is recomputed from. */
export async function eventsOfRun(run: string, store: Store): Promise<RolloutEvent[]> {
  const end = await endOfRun(run, store);
  const events = await store.events(run);
  if (!wasStopped(end)) return events;
  const { finishedAt: at, status } = end;
  return [
    ...events,
    ...unfinishedOf(events).map(({ rollout, attempt }): RolloutEvent => ({
      run,
      rollout,
      attempt,
      event: 'masked',
      at,
      detail: `run-${status}`,
    })),
  ];
}
