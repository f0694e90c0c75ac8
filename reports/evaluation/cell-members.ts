/**
 * The rollouts of a cell over all rounds: one for each sample of each task, a graded one if there is one. A rollout
 * that was reported as masked stays masked, even if a disconnected worker reports a grade later.
 */

import type { Store } from '../../store/store.ts';
import type { OutcomeRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { RolloutEnd } from '../rollout-ends.ts';
import { evalRun } from './eval-records.ts';

export interface Member {
  readonly task: string;
  readonly sample: number;
  /** `undefined` if nothing is recorded. */
  readonly outcome: OutcomeRecord | undefined;
}

/** Why a rollout was not graded. `undefined` if it was. */
export function failureOf({ outcome }: Pick<Member, 'outcome'>): string | undefined {
  if (!outcome) return 'no-outcome';
  return outcome.status === 'failed' ? (outcome.failure ?? 'internal') : undefined;
}

function sampleOf({ rollout }: OutcomeRecord): number {
  return Number(rollout.slice(rollout.lastIndexOf('/') + 1));
}

const placeOf = (task: string, sample: number) => `${task}/${sample}`;

/** The cell's outcomes by task and sample: a graded one if there is one. */
export async function outcomesOf(id: string, cell: string, store: Store): Promise<Map<string, OutcomeRecord>> {
  const prefix = `${evalRun(id)}/${cell}/`;
  const ends = await store.list<RolloutEnd>(keys.end(prefix));
  const masked = new Set(ends.filter(({ value }) => value.event === 'masked').map(({ value }) => value.rollout));
  const found = new Map<string, OutcomeRecord>();
  for (const { value: outcome } of await store.list<OutcomeRecord>(keys.outcome(prefix))) {
    const place = placeOf(outcome.task, sampleOf(outcome));
    if (outcome.status === 'graded' && masked.has(outcome.rollout)) continue;
    if (found.get(place)?.status !== 'graded') found.set(place, outcome);
  }
  return found;
}

/** Every sample of every task, ordered by task. */
export async function membersOf(
  id: string,
  cell: string,
  tasks: readonly string[],
  samples: number,
  store: Store,
): Promise<Member[]> {
  const found = await outcomesOf(id, cell, store);
  return tasks.flatMap((task) =>
    Array.from({ length: samples }, (_, sample) => ({ task, sample, outcome: found.get(placeOf(task, sample)) })),
  );
}
