/** What became of every dispatched rollout, recomputed from the append-only table and nothing else. */

import type { RolloutEvent, RolloutEventName } from './store.ts';

export interface Accounting {
  readonly dispatched: number;
  readonly trained: number;
  readonly masked: number;
  readonly dropped: number;
  readonly evaluated: number;
  /** Rollouts that were ended in more than one way, be the second word on record or refused. */
  readonly duplicated: number;
  /** Rollouts dispatched by a run that is over, and without an end. */
  readonly lost: number;
}

const ENDS: ReadonlySet<RolloutEventName> = new Set(['trained', 'masked', 'dropped', 'evaluated']);

/** `over`: the run has ended, so that what has no end is lost, not in flight. */
export function accountFor(events: readonly RolloutEvent[], over: boolean): Accounting {
  const dispatched = new Set<string>();
  const ends = new Map<string, RolloutEventName[]>();
  const refused = new Set<string>();
  for (const { rollout, event } of events) {
    if (event === 'end-refused') refused.add(rollout);
    if (event === 'dispatched') dispatched.add(rollout);
    if (ENDS.has(event)) ends.set(rollout, [...(ends.get(rollout) ?? []), event]);
  }
  const firstEnds = [...ends.values()].map((list) => list[0]);
  const count = (name: RolloutEventName) => firstEnds.filter((event) => event === name).length;
  return {
    dispatched: dispatched.size,
    trained: count('trained'),
    masked: count('masked'),
    dropped: count('dropped'),
    evaluated: count('evaluated'),
    duplicated: new Set([...refused, ...[...ends].filter(([, list]) => list.length > 1).map(([rollout]) => rollout)]).size,
    lost: over ? [...dispatched].filter((rollout) => !ends.has(rollout)).length : 0,
  };
}
