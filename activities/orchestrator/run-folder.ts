/**
 * The files of a run's folder, written from the store alone: writing them again gives the same files, so a killed
 * writer loses nothing. Each is written aside, then renamed.
 */

import { join } from 'node:path';
import type { Store } from '../../store/store.ts';
import { evaluationMetrics } from '../../reports/evaluation/evaluation-metrics.ts';
import { changesOfRun } from '../../store/read-records.ts';
import { type RunSummary, summaryOf, type TemporalPlace, withMetrics } from '../../reports/run-summary.ts';
import { RunTallies } from '../../reports/run-tally.ts';
import { writeTensorboard } from '../../reports/tensorboard/write-tensorboard.ts';
import { writeAtomically } from '../../store/atomic-write.ts';

/** Writes `changes.jsonl`: a line for each setting that was changed on the live run. */
export async function writeChanges(run: string, runDir: string, store: Store): Promise<void> {
  const lines = (await changesOfRun(store, run)).map((change) => `${JSON.stringify(change)}\n`);
  if (lines.length > 0) await writeAtomically(join(runDir, 'changes.jsonl'), lines.join(''));
}

/** Writes `summary.json`, `metrics.jsonl` and `tensorboard/`. `tallies` avoids repeated reading of records. */
export async function writeRunFiles(
  run: string,
  runDir: string,
  store: Store,
  temporal: TemporalPlace,
  tallies = new RunTallies(store),
): Promise<RunSummary> {
  const summary = await summaryOf(run, store, temporal, tallies);
  if (!summary) throw new Error(`Run ${run} is not in the store`);
  await writeAtomically(join(runDir, 'summary.json'), `${JSON.stringify(summary, null, 2)}\n`);
  const evaluated = new Map(summary.evaluation.all.map((one) => [one.step, evaluationMetrics(one)]));
  const lines = summary.steps.map((step) => `${JSON.stringify(withMetrics(step, evaluated.get(step.step)))}\n`);
  await writeAtomically(join(runDir, 'metrics.jsonl'), lines.join(''));
  await writeTensorboard(runDir, summary, (await tallies.of(run)).batchEnds);
  return summary;
}
