/** The document of `summary.json`: a run's numbers, from the store only. */

import { join } from 'node:path';
import type { Store } from '../store/store.ts';
import type { StepRecord } from '../protocol/step-record.ts';
import {
  batchesOf,
  type EvaluationEntry,
  type RunRecord,
  type StepEntry,
  type UpdateEntry,
} from '../protocol/records.ts';
import { keys } from '../protocol/record-keys.ts';
import { changesOfRun } from '../store/read-records.ts';
import { adviceFor, noGroupVaried, type VaryingSettings, varyingSettings } from './no-group-varied.ts';
import { endOfRun, wasStopped, workedMsOf } from './run-end.ts';
import { spentOf } from './spent.ts';
import { RunTallies, type Tallies } from './run-tally.ts';

export interface TemporalPlace {
  readonly address: string;
  readonly namespace: string;
  readonly ui: string;
}

/** A step's record with its metrics under SkyRL's names. */
type StepSummary = StepRecord & { readonly metrics?: Readonly<Record<string, number>> };

export function checkpointDir(runDir: string, step: number): string {
  return join(runDir, 'checkpoints', `step-${step}`);
}

/** `record` with further metrics, if there are any. */
export function withMetrics<T extends { readonly metrics?: Readonly<Record<string, number>> }>(
  record: T,
  more: Readonly<Record<string, number>> = {},
): T {
  return Object.keys(more).length === 0 ? record : { ...record, metrics: { ...record.metrics, ...more } };
}

/** The steps in which no group varied, and what to change. Empty if a group varied in each step. */
function unvariedOf(steps: readonly StepRecord[], settings: VaryingSettings | undefined) {
  const unvaried = steps.filter(noGroupVaried);
  if (unvaried.length === 0) return {};
  return {
    noGroupVaried: { steps: unvaried.map(({ step }) => step), of: steps.length, advice: adviceFor(unvaried, settings) },
  };
}

/**
 * `undefined` for an unknown run. With a `ReadModel` as `tallies`, no event is read; else give the same ones in
 * repeated calls: they read each event only once.
 */
export async function summaryOf(
  run: string,
  store: Store,
  temporal: TemporalPlace,
  tallies: Tallies = new RunTallies(store),
) {
  const record = await store.get<RunRecord>(keys.run(run));
  if (!record) return undefined;
  const steps = (await store.list<StepEntry>(`step:${run}/`)).map(({ value }) => value);
  const evaluations = (await store.list<EvaluationEntry>(`evaluation:${run}/`)).map(({ value }) => value);
  const updates = new Map(
    (await store.list<UpdateEntry>(`update:${run}/`)).map(({ value }) => [value.record.step, value.metrics]),
  );
  const { account, times, spending } = await tallies.of(run);
  const end = await endOfRun(run, store);
  const after = evaluations.length > 1 ? evaluations.at(-1) : undefined;
  const changes = await changesOfRun(store, run);
  const planned = changes.findLast(({ field }) => field === 'steps')?.to ?? record.config?.steps;
  return {
    runId: run,
    status: end?.status ?? ('running' as const),
    startedAt: record.startedAt,
    finishedAt: end?.finishedAt ?? null,
    ...(end?.message ? { message: end.message } : {}),
    seed: record.seed,
    temporal: { ...temporal, workflowId: `train/${run}` },
    policy: record.policy,
    task: record.task,
    evaluation: {
      before: evaluations[0]?.evaluation ?? null,
      after: after?.evaluation ?? null,
      all: evaluations.map(({ step, evaluation }) => ({ step, ...evaluation })),
    },
    /** Settings that were changed during the run; `config.yaml` has the ones at its start. */
    changes,
    /** Number of planned steps, from the configuration and its changes. */
    ...(planned === undefined ? {} : { plannedSteps: Number(planned) }),
    ...unvariedOf(
      steps.map(({ record: step }) => step),
      record.config && varyingSettings(record.config, changes),
    ),
    steps: steps.map(({ record }) =>
      withMetrics<StepSummary>(record, {
        ...updates.get(record.step),
        ...times.metrics(batchesOf(record)),
        ...spending.metrics(batchesOf(record)),
      }),
    ),
    checkpoints: steps
      .filter((entry) => entry.keep)
      .map(({ record: { step }, policy: { uri }, sha256 }) => ({ step, uri, sha256 })),
    /** What it has used of its budgets. */
    spent: await spentOf(run, store, spending, await workedMsOf(run, store)),
    accounting: account.totals(end !== undefined, wasStopped(end)),
  };
}

export type RunSummary = NonNullable<Awaited<ReturnType<typeof summaryOf>>>;
