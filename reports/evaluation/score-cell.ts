/**
 * The scores of a cell. Failed rollouts stay in the denominator and are counted by reason; the same scores over graded
 * rollouts are given too. So a change in the infrastructure's failures is not mistaken for a change of the policy.
 */

import type { BootstrapSettings, CellResult, Estimate, Scores } from '../../protocol/eval.ts';
import { bootstrapMean } from './bootstrap.ts';
import { failureOf, type Member } from './cell-members.ts';

export interface CellSettings {
  readonly cell: string;
  readonly policy: string;
  readonly sampling: string;
  readonly samples: number;
  readonly passAt: readonly number[];
  readonly bootstrap: BootstrapSettings;
  /** Seeds the draws of the intervals. */
  readonly seed: number;
  readonly familyOf: (task: string) => string;
}

function byTask(members: readonly Member[]): Member[][] {
  const groups = new Map<string, Member[]>();
  for (const member of members) groups.set(member.task, [...(groups.get(member.task) ?? []), member]);
  return [...groups.values()];
}

const passes = (members: readonly Member[]) => members.filter(({ outcome }) => outcome?.passed).length;
const meanReward = (members: readonly Member[]) =>
  members.reduce((sum, { outcome }) => sum + (outcome?.reward ?? 0), 0) / members.length;

/**
 * Each measure is a mean over tasks, so that a task with fewer graded rollouts counts as much as another. All measures
 * use the same draws of tasks: equal values have equal intervals.
 */
function scores(members: readonly Member[], stream: string, { passAt, samples, bootstrap }: CellSettings): Scores {
  const tasks = byTask(members);
  const estimates = passAt.flatMap((k): Array<readonly [string, Estimate]> => {
    const enough = k <= samples ? tasks.filter((task) => task.length >= k) : [];
    const estimate = bootstrapMean(
      enough.map((task) => passAtK(task.length, passes(task), k)),
      stream,
      bootstrap,
    );
    return estimate ? [[String(k), estimate]] : [];
  });
  return {
    tasks: tasks.length,
    rollouts: members.length,
    meanReward: bootstrapMean(tasks.map(meanReward), stream, bootstrap),
    passAt: Object.fromEntries(estimates),
  };
}

function byFamily(members: readonly Member[], stream: string, settings: CellSettings): Record<string, Scores> {
  const families = new Map<string, Member[]>();
  for (const member of members) {
    const family = settings.familyOf(member.task);
    const list = families.get(family);
    if (list) list.push(member);
    else families.set(family, [member]);
  }
  const sorted = [...families].sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(sorted.map(([family, list]) => [family, scores(list, `${stream}/${family}`, settings)]));
}

/**
 * Compares the mean reward of all tasks with those of the families, which are computed apart. `largest`: the largest
 * reward, without its sign. Errors: `Error` if they contradict each other. The scores are recorded once, so wrong ones
 * would stay; the activity that throws is retried.
 */
export function checkFamilies(all: Scores, families: Record<string, Scores>, largest: number): void {
  const parts = Object.values(families);
  const sum = (of: (part: Scores) => number) => parts.reduce((total, part) => total + of(part), 0);
  const rewardOf = ({ tasks, meanReward: estimate }: Scores) => tasks * (estimate?.mean ?? 0);
  const [whole, rewards] = [rewardOf(all), sum(rewardOf)];
  const isSame = Math.abs(whole - rewards) <= 1e-9 * largest * all.tasks;
  if (sum(({ tasks }) => tasks) === all.tasks && sum(({ rollouts }) => rollouts) === all.rollouts && isSame) return;
  throw new Error(
    `the scores of ${all.rollouts} rollouts contradict those of their families: ` +
      `rewards of ${whole} and ${rewards} over ${all.tasks} tasks`,
  );
}

export function scoreCell(members: readonly Member[], settings: CellSettings): CellResult {
  const { cell, policy, sampling, seed } = settings;
  const stream = `eval/${seed}`;
  const failed: Record<string, number> = {};
  for (const reason of members.map(failureOf)) if (reason !== undefined) failed[reason] = (failed[reason] ?? 0) + 1;
  const graded = members.filter((member) => failureOf(member) === undefined);
  const all = scores(members, stream, settings);
  const families = byFamily(members, stream, settings);
  const largest = members.reduce((most, { outcome }) => Math.max(most, Math.abs(outcome?.reward ?? 0)), 0);
  checkFamilies(all, families, largest);
  return {
    cell,
    policy,
    sampling,
    ...all,
    graded: graded.length,
    failed,
    ofGraded: scores(graded, stream, settings),
    byFamily: families,
  };
}

/**
 * 1 − C(n−c, k) / C(n, k), of Chen et al. 2021 ("Evaluating Large Language Models Trained on Code", equation 1), as a
 * product, so that no binomial overflows: `passed` of `samples` passed. The fraction of passes ^ k would be biased.
 * Errors: `RangeError` unless 1 ≤ k ≤ samples and 0 ≤ passed ≤ samples.
 */
export function passAtK(samples: number, passed: number, k: number): number {
  if (!(k >= 1 && k <= samples && passed >= 0 && passed <= samples)) {
    throw new RangeError(`pass@${k} cannot be computed from ${passed} passes of ${samples} samples`);
  }
  if (samples - passed < k) return 1;
  let noneOfThem = 1;
  for (let i = samples - passed + 1; i <= samples; i += 1) noneOfThem *= 1 - k / i;
  return 1 - noneOfThem;
}
