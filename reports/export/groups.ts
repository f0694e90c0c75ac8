/**
 * The rollouts of a run's training steps, or of an eval, group by group: what an export reads. One batch, or one cell
 * of an eval, is in memory at a time. Held-out rollouts of a run are never among them.
 */

import { batchesOf, type OutcomeRecord, type StepEntry } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { manifestIfAny } from '../../store/read-records.ts';
import type { Store } from '../../store/store.ts';
import { outcomesOf } from '../evaluation/cell-members.ts';
import { evalKeys, type EvalRecord } from '../evaluation/eval-records.ts';

/** The rollouts of one task, by one policy. */
export interface OutcomeGroup {
  /** The run's step. Absent: it is an eval's. */
  readonly step?: number;
  /** The eval's `POLICY/SAMPLING`. Absent: it is a run's. */
  readonly cell?: string;
  /** Unique in the export. */
  readonly name: string;
  readonly task: string;
  readonly outcomes: readonly OutcomeRecord[];
}

/** A run's step with the names of its batches. */
export interface StepBatches {
  readonly step: number;
  readonly batches: readonly string[];
}

/** The steps that the run has completed, in order. */
export async function stepsOf(run: string, store: Store): Promise<StepBatches[]> {
  const entries = await store.list<StepEntry>(`step:${run}/`);
  return entries.map(({ value: { record } }) => ({ step: record.step, batches: batchesOf(record) }));
}

async function* groupsOfBatch(run: string, step: number, batch: string, store: Store): AsyncGenerator<OutcomeGroup> {
  const id = `train/${run}/${batch}`;
  const prefix = keys.outcome(`${id}/`);
  const known = new Map((await store.list<OutcomeRecord>(prefix)).map(({ value }) => [value.rollout, value]));
  for (const { task, rollouts } of (await manifestIfAny(id, store))?.groups ?? []) {
    const outcomes = rollouts.flatMap((rollout) => known.get(rollout) ?? []);
    if (outcomes.length > 0) yield { step, name: `${batch}/${task}`, task, outcomes };
  }
}

/** `step`: absent, all. */
export async function* groupsOfRun(run: string, step: number | undefined, store: Store): AsyncGenerator<OutcomeGroup> {
  for (const one of await stepsOf(run, store)) {
    if (step !== undefined && one.step !== step) continue;
    for (const batch of one.batches) yield* groupsOfBatch(run, one.step, batch, store);
  }
}

/** Of each sample of each task, the graded rollout if there is one. */
export async function* groupsOfEval(id: string, store: Store): AsyncGenerator<OutcomeGroup> {
  const record = await store.get<EvalRecord>(evalKeys.record(id));
  const { policies = [], config } = record ?? {};
  const cells = policies.flatMap((policy) => (config?.sampling ?? []).map(({ name }) => `${policy.name}/${name}`));
  for (const cell of cells) {
    const outcomes = [...(await outcomesOf(id, cell, store)).values()];
    for (const [task, own] of Map.groupBy(outcomes, (outcome) => outcome.task))
      yield { cell, name: `${cell}/${task}`, task, outcomes: own };
  }
}

/** The groups of a run, or of `eval/ID`. */
export function groupsOf(name: string, step: number | undefined, store: Store): AsyncGenerator<OutcomeGroup> {
  const [, id] = /^eval\/(.+)$/u.exec(name) ?? [];
  return id === undefined ? groupsOfRun(name, step, store) : groupsOfEval(id, store);
}
