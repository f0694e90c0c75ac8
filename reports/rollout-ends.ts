/**
 * Ends of rollouts in the append-only table: every rollout has one, the first that was reported. A disconnected worker
 * may report another end later. The recorded end stays, and the other one is recorded as `end-refused`. Unfinished
 * rollouts of a failed or cancelled run count as masked by the run's end, but have no end in the table: if the run is
 * started again, it continues them.
 */

import type { RolloutEvent, RolloutEventName, Store } from '../store/store.ts';
import { keys } from '../protocol/record-keys.ts';
import { endOfRun, wasStopped } from './run-end.ts';

export interface RolloutEnd extends RolloutEvent {
  readonly event: Extract<RolloutEventName, 'trained' | 'masked' | 'dropped' | 'evaluated'>;
}

function wordFor({ event, detail }: RolloutEnd): string {
  return detail ? `${event} ${detail}` : event;
}

/** A retry that reports the same end again is no second end. */
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

/** Rollouts that were dispatched and have no end in the table: the last `dispatched` event of each. */
export function unfinishedOf(events: readonly RolloutEvent[]): RolloutEvent[] {
  const open = new Map<string, RolloutEvent>();
  for (const event of events) if (event.event === 'dispatched') open.set(event.rollout, event);
  for (const { event, rollout } of events) if (ENDS.has(event)) open.delete(rollout);
  return [...open.values()];
}

/** The run's events, plus the ends of rollouts that follow from the run's end. The account is computed from these. */
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
