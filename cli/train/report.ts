/** The report of an ended run: evaluations before and after, files, one trajectory, next commands. */

import { TaskLoader } from '../../tasks/task-loader.ts';
import { join } from 'node:path';
import type { RunSummary } from '../../reports/run-summary.ts';
import { spentLines } from '../../reports/spent.ts';
import { trajectoryOf } from '../../reports/trajectories.ts';
import type { Store } from '../../store/store.ts';
import { UnknownName } from '../../modules/registry.ts';
import { batchesOf, type OutcomeRecord } from '../../protocol/records.ts';
import type { EvaluationRecord } from '../../protocol/step-record.ts';
import { table } from '../terminal-text.ts';
import { evaluationLines, trajectoryText } from './format.ts';

/**
 * True if the held-out pass rate grew, both over all rollouts and over the graded ones; `quickstart` fails otherwise.
 * Fewer failures of the infrastructure raise the first rate without a better policy.
 */
export function improved(summary: RunSummary): boolean {
  const { before, after } = summary.evaluation;
  if (before === null || after === null || after.passRate <= before.passRate) return false;
  const graded = ({ gradedPassRate, passRate }: EvaluationRecord) =>
    gradedPassRate === undefined ? passRate : (gradedPassRate ?? 0);
  return before.gradedPassRate !== null && graded(after) > graded(before);
}

/** The prompt of a task whose module is not loaded here cannot be shown. */
function unlessUnknown(error: unknown): undefined {
  if (!(error instanceof UnknownName)) throw error;
}

async function exampleTrajectory(summary: RunSummary, store: Store): Promise<string[]> {
  const last = summary.steps.at(-1);
  if (!last) return [];
  const outcomes = await store.list<OutcomeRecord>(`outcome:train/${summary.runId}/${batchesOf(last)[0] ?? ''}/`);
  const shown = outcomes.find(({ value }) => value.passed) ?? outcomes[0];
  const trajectory =
    shown && (await trajectoryOf(shown.value.rollout, { store, tasks: new TaskLoader(store) }).catch(unlessUnknown));
  return trajectory ? ['', 'One rollout of the last step, in full:', trajectoryText(trajectory)] : [];
}

/** Why a run, or some of its steps, taught nothing, and what to change. Empty if a group varied in each step. */
function unvariedLines({ noGroupVaried }: RunSummary): string[] {
  if (noGroupVaried === undefined) return [];
  const { steps, of, advice } = noGroupVaried;
  const which = steps.length === of ? 'any step' : `${steps.length} of ${of} steps`;
  return [
    `no group varied in ${which}: all rollouts of a task had the same reward, so nothing was learned from ` +
      'them. Change:',
    ...advice.map((line) => `  - ${line}`),
  ];
}

export async function reportLines(summary: RunSummary, runDir: string, store: Store): Promise<string[]> {
  const { before, after } = summary.evaluation;
  const { accounting } = summary;
  const seconds = (Date.parse(summary.finishedAt ?? summary.startedAt) - Date.parse(summary.startedAt)) / 1000;
  const next = [
    [`npx longhaul rollouts ${summary.runId}`, 'every rollout and how it ended'],
    ['npx longhaul trajectory ROLLOUT', 'one of them, turn by turn'],
    ...(summary.temporal.ui ? [[summary.temporal.ui, "the same in Temporal's UI"]] : []),
    ['npx longhaul down', 'stop the stack'],
  ];
  return [
    ...(await exampleTrajectory(summary, store)),
    '',
    `run ${summary.runId} ${summary.status} in ${(seconds / 60).toFixed(1)} minutes`,
    ...(before ? evaluationLines('before', before) : []),
    ...(after ? evaluationLines('after', after) : []),
    ...unvariedLines(summary),
    `rollouts: ${accounting.dispatched} dispatched = ${accounting.trained} trained + ${accounting.masked} ` +
      `masked + ${accounting.dropped} dropped + ${accounting.evaluated} evaluated; ${accounting.lost} lost, ` +
      `${accounting.duplicated} duplicated`,
    ...spentLines(summary.spent),
    `learning curve: ${join(runDir, 'learning-curve.svg')}`,
    `summary: ${join(runDir, 'summary.json')} · metrics: ${join(runDir, 'metrics.jsonl')}`,
    '',
    'Next:',
    ...table(next).map((line) => `  ${line}`),
  ];
}
