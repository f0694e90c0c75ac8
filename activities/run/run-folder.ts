/**
 * The files of a run's folder, written from the store alone: writing them again gives the same files, so a killed
 * writer loses nothing. Each is written aside, then renamed.
 */

import { join } from 'node:path';
import { type Account, accountFor } from '../../store/accounting.ts';
import type { Store } from '../../store/store.ts';
import { changesOfRun, type EvaluationEntry, keys, type RunEnd, type RunRecord, type StepEntry, type UpdateEntry } from '../records.ts';
import { RunTallies } from './run-tally.ts';
import { writeTensorboard } from '../tensorboard/write-tensorboard.ts';
import { writeAside } from '../write-aside.ts';

export interface TemporalPlace {
  readonly address: string;
  readonly namespace: string;
  readonly ui: string;
}

export function checkpointDir(runDir: string, step: number): string {
  return join(runDir, 'checkpoints', `step-${step}`);
}

/** The document of `summary.json`, from the store; `account` is the run's, for callers that have it. */
export async function summaryOf(run: string, store: Store, temporal: TemporalPlace, account?: Account) {
  const record = await store.get<RunRecord>(keys.run(run));
  if (!record) return undefined;
  const steps = (await store.list<StepEntry>(`step:${run}/`)).map(({ value }) => value);
  const evaluations = (await store.list<EvaluationEntry>(`evaluation:${run}/`)).map(({ value }) => value);
  const updates = new Map((await store.list<UpdateEntry>(`update:${run}/`)).map(({ value }) => [value.record.step, value.metrics]));
  const metricsOf = (step: number) => (updates.get(step) === undefined ? {} : { metrics: updates.get(step) });
  const end = await store.get<RunEnd>(keys.runEnd(run));
  const after = evaluations.length > 1 ? evaluations.at(-1) : undefined;
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
    /** Settings that were changed while it ran; `config.yaml` is what it began with. */
    changes: await changesOfRun(store, run),
    steps: steps.map(({ record: made }) => ({ ...made, ...metricsOf(made.step) })),
    checkpoints: steps
      .filter((entry) => entry.keep)
      .map(({ record: { step }, sha256 }) => ({ step, path: join('checkpoints', `step-${step}`), sha256 })),
    accounting: account?.totals(end !== undefined) ?? accountFor(await store.events(run), end !== undefined),
  };
}

export type RunSummary = NonNullable<Awaited<ReturnType<typeof summaryOf>>>;

/** Writes `changes.jsonl`: a line for each setting that was changed on the live run. */
export async function writeChanges(run: string, runDir: string, store: Store): Promise<void> {
  const lines = (await changesOfRun(store, run)).map((change) => `${JSON.stringify(change)}\n`);
  if (lines.length > 0) await writeAside(join(runDir, 'changes.jsonl'), lines.join(''));
}

/** Writes `summary.json`, `metrics.jsonl` and `tensorboard/`. `tallies` saves reading again what it knows. */
export async function writeRunFiles(
  run: string,
  runDir: string,
  store: Store,
  temporal: TemporalPlace,
  tallies = new RunTallies(store),
): Promise<RunSummary> {
  const { account, batchEnds } = await tallies.of(run);
  const summary = await summaryOf(run, store, temporal, account);
  if (!summary) throw new Error(`Run ${run} is not in the store`);
  await writeAside(join(runDir, 'summary.json'), `${JSON.stringify(summary, null, 2)}\n`);
  const lines = summary.steps.map((step) => `${JSON.stringify(step)}\n`);
  await writeAside(join(runDir, 'metrics.jsonl'), lines.join(''));
  await writeTensorboard(runDir, summary, batchEnds);
  return summary;
}
