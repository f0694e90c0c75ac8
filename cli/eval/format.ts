/** Formats an eval as lines of text. Pure: it prints nothing. */

import { join } from 'node:path';
import { dispatching, judgeLines } from '../train/plan.ts';
import { parsePolicyReference } from '../../config/policy-reference.ts';
import { evalFolder } from '../../reports/evaluation/eval-records.ts';
import { spentLines } from '../../reports/spent.ts';
import type { EvalResults } from '../../reports/evaluation/eval-results.ts';
import type {
  AskedTasks,
  CellHeadline,
  CellResult,
  Estimate,
  SettledSweep,
  SweepConfig,
  SweepPolicy,
  TaskSelection,
} from '../../protocol/eval.ts';
import { table } from '../terminal-text.ts';

const number = (value: number) => value.toFixed(3);

/** `0.615 [0.550, 0.680]`. */
export function estimateText(estimate: Estimate | null | undefined): string {
  return estimate ? `${number(estimate.mean)} [${number(estimate.low)}, ${number(estimate.high)}]` : '-';
}

const failures = (failed: CellHeadline['failed']) =>
  Object.entries(failed)
    .map(([reason, n]) => `${n} ${reason}`)
    .join(', ');

function policyLine(policy: SweepPolicy): string {
  const { name } = policy;
  if (!('endpoint' in policy)) return `policy ${name === policy.policy ? name : `${name}: ${policy.policy}`}`;
  const { model, baseUrl, mode, apiKeyEnv } = policy.endpoint;
  return (
    `policy ${name}: ${model} at ${baseUrl}, mode ${mode}, ` +
    `${
      apiKeyEnv === undefined
        ? 'no key'
        : `key from ${apiKeyEnv} (start the stack with LONGHAUL_KEYS=${apiKeyEnv}@${new URL(baseUrl).origin} and ` +
          `${apiKeyEnv} in its environment)`
    }`
  );
}

/** What only the workers and the store know, so that a plan without a stack leaves it unchecked. */
export function uncheckedLines({ eval: id, policies }: SweepConfig): string[] {
  const ofRuns = policies.flatMap((one) => {
    if ('endpoint' in one) return [];
    const { kind } = parsePolicyReference(one.policy);
    return kind === 'latest' || kind === 'checkpoint' ? [one.policy] : [];
  });
  return [
    ...(ofRuns.length > 0 ? [`not checked: that there is a checkpoint for ${ofRuns.join(', ')}`] : []),
    `not checked: that eval ${id}, if there is one already, has the same settings`,
  ];
}

/** The tasks in a line, with the settings that `asked` left to the data. */
function tasksLine(tasks: TaskSelection, asked: AskedTasks): string {
  if ('ids' in tasks) return `${tasks.ids.length} tasks by id`;
  const left = (['split', 'count'] as const).filter((field) => !(field in asked));
  const chosen = left.length === 0 ? '' : ` (by default: ${left.map((field) => `tasks.${field}`).join(', ')})`;
  return `${tasks.name}: ${tasks.count} ${tasks.split} tasks from ${tasks.from}${chosen}`;
}

/** The plan of an eval, as lines that are printed before it starts. `asked`: the configuration as it was given. */
export function evalPlanLines(settled: SettledSweep, asked: SweepConfig = settled): string[] {
  const { eval: id, dir, seed, tasks, policies, sampling, passAt, dispatcher, bootstrap, judges, budget } = settled;
  const count = 'ids' in tasks ? tasks.ids.length : tasks.count;
  const perTask = sampling.reduce((sum, { samples }) => sum + samples, 0);
  return [
    `eval ${id} in ${evalFolder(dir, id)}, seed ${seed}`,
    tasksLine(tasks, asked.tasks),
    ...policies.map(policyLine),
    ...sampling.map(
      ({ name, temperature, topP, topK, maxTokens, samples }) =>
        `sampling ${name}: temperature ${temperature}, top-p ${topP}, top-k ${topK}, at most ${maxTokens} ` +
        `tokens a turn, ${samples} samples of each task`,
    ),
    `${policies.length * count * perTask} rollouts; pass@${passAt.join(', pass@')}; ` +
      `${100 * bootstrap.confidence}% intervals by ${bootstrap.resamples} resamples of the tasks`,
    `dispatcher ${dispatcher.type}: ${dispatching(dispatcher)}`,
    ...judgeLines(judges, budget),
  ];
}

/** One finished cell as a line. */
export function cellLine({ cell, rollouts, graded, meanReward, passAt, failed }: CellHeadline): string {
  const rates = Object.entries(passAt).map(([k, estimate]) => `pass@${k} ${estimateText(estimate)}`);
  const missing = graded === rollouts ? '' : ` · not graded: ${failures(failed)}`;
  return `${cell}: ${rates.join(' · ')} · reward ${estimateText(meanReward)} · ${rollouts} rollouts${missing}`;
}

function familyLines({ cell, byFamily }: CellResult): string[] {
  const families = Object.entries(byFamily).map(
    ([family, { passAt }]) => `${family} ${number(passAt['1']?.mean ?? Object.values(passAt)[0]?.mean ?? 0)}`,
  );
  return families.length > 1 ? [`  ${cell} by family: ${families.join(' · ')}`] : [];
}

function gradedLines({ cell, rollouts, graded, failed, ofGraded }: CellResult): string[] {
  if (graded === rollouts) return [];
  const rates = Object.entries(ofGraded.passAt).map(([k, estimate]) => `pass@${k} ${estimateText(estimate)}`);
  return [
    `  ${cell} not graded: ${failures(failed)} of ${rollouts}; of the graded ones: ${rates.join(' · ') || 'none'}`,
  ];
}

/** The open rollouts of a running sweep, so that the sum is complete. */
function underWay({ status, accounting: { dispatched, evaluated, masked } }: EvalResults): string {
  return status === 'running' && dispatched > evaluated + masked ? ` + ${dispatched - evaluated - masked} running` : '';
}

/** The report of an eval, ended or still running. `why` is empty if the error that follows has the reason. */
export function evalReportLines(results: EvalResults, why = results.message): string[] {
  const { cells, evalDir, confidence, accounting } = results;
  const ks = [...new Set(cells.flatMap(({ passAt }) => Object.keys(passAt)))];
  const rows = cells.map((cell) => [
    cell.policy,
    cell.sampling,
    String(cell.tasks),
    `${cell.graded}/${cell.rollouts}`,
    estimateText(cell.meanReward),
    ...ks.map((k) => estimateText(cell.passAt[k])),
  ]);
  return [
    '',
    `eval ${results.eval} ${results.status}${why ? `: ${why}` : ''}`,
    ...table([['POLICY', 'SAMPLING', 'TASKS', 'GRADED', 'REWARD', ...ks.map((k) => `PASS@${k}`)], ...rows]),
    ...cells.flatMap(familyLines),
    ...cells.flatMap(gradedLines),
    `in brackets: ${100 * confidence}% bootstrap intervals over tasks; failures count as not passed`,
    `rollouts: ${accounting.dispatched} dispatched = ${accounting.evaluated} evaluated + ${accounting.masked} ` +
      `masked${underWay(results)}; ${accounting.lost} lost, ${accounting.duplicated} duplicated`,
    ...spentLines(results.spent),
    `results: ${join(evalDir, 'results.json')} · each rollout: ${join(evalDir, 'rollouts.jsonl')}`,
    `picture: ${join(evalDir, 'pass-at-k.svg')}`,
  ];
}
