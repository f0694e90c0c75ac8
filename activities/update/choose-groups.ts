/**
 * Which groups of a step are trained on, which of them twice, and why the others are not: a function of the records, so
 * that a repeated update chooses the same.
 */

import { comparesGroups } from '../../trainer/algorithms/advantages/registry.ts';
import { donorsOf, mayReplace } from '../../trainer/algorithms/dynamic-sampling.ts';
import { keepVarying } from '../../trainer/algorithms/filters.ts';
import { SAME_REWARD } from '../../workflows/batch/ledger.ts';
import type { ReplaceSettings } from '../../protocol/batch.ts';
import type { AlgorithmSettings } from '../../protocol/run-config.ts';
import type { StepRecord } from '../../protocol/step-record.ts';
import type { UpdateInput } from '../../protocol/update.ts';
import type { Member } from './rollout-metrics.ts';

/** A group that was drawn: the members that are valid, and why each of the others is not. */
export interface Group {
  readonly batch: string;
  readonly task: string;
  readonly members: readonly Member[];
  readonly masked: ReadonlyMap<string, string>;
}

type Choice = Pick<UpdateInput, 'wanted' | 'replace' | 'algorithm' | 'samples'>;

/** True if its tokens are learnt; otherwise it is only in its group's baseline. */
export const isLearnt = ({ outcome }: Member, { overlongFilter }: AlgorithmSettings): boolean =>
  !overlongFilter || outcome.finish === 'finish-tool' || outcome.finish === 'answer';

/**
 * True if rewards vary among all members, and also among those that are learnt: otherwise the difference is only to
 * members that are not learnt. If groups are drawn until enough vary, a group with one remaining member of several does
 * not vary; otherwise it counts as a group of one.
 */
function varies(members: readonly Member[], { wanted, replace, samples, algorithm }: Choice): boolean {
  const drawsByNeed = wanted !== undefined || replace !== undefined;
  if (drawsByNeed && members.length === 1 && samples > 1) return false;
  const rewards = members.map((m) => m.outcome.reward ?? 0);
  const group = { rewards, groups: rewards.map(() => '') };
  const judgements = [group, { ...group, counts: members.map((member) => isLearnt(member, algorithm)) }];
  return judgements.every((judged) => keepVarying(judged, SAME_REWARD).length > 0);
}

/**
 * How many of the groups with several members vary in reward, and how many do not. `undefined` if the estimator learns
 * from other things than the differences in a group.
 */
export function groupRewardsOf(groups: readonly Group[], choice: Choice): StepRecord['groupRewards'] {
  if (!comparesGroups(choice.algorithm.advantage)) return undefined;
  const several = groups.filter(({ members }) => members.length > 1);
  const varied = several.filter(({ members }) => varies(members, choice)).length;
  return { varied, alike: several.length - varied };
}

/** Why a whole group is not trained on; `undefined` if it is. */
function uselessness(members: readonly Member[], enough: boolean, choice: Choice): string | undefined {
  const { advantage, zeroVarianceFilter = true } = choice.algorithm;
  if (enough) return 'surplus';
  if (members.length < (comparesGroups(advantage) ? 2 : 1)) return 'group-too-small';
  return zeroVarianceFilter && !varies(members, choice) ? 'zero-variance' : undefined;
}

/** Why each group is not trained on; `undefined` if it is. */
export function judge(groups: readonly Group[], choice: Choice): Array<string | undefined> {
  const { wanted, replace } = choice;
  const counted = new Map<string, number>();
  // Of the groups that were drawn before the last ones, too few varied.
  const resampled = replace === undefined ? 0 : groups.length - replace.groups;
  return groups.map(({ batch, members }, i) => {
    if (i < resampled) return 'resampled';
    const useless = uselessness(members, (counted.get(batch) ?? 0) === wanted, choice);
    if (useless === undefined) counted.set(batch, (counted.get(batch) ?? 0) + 1);
    return useless;
  });
}

/**
 * Copies of trained groups that replace the groups that are not trained on. Each copy is a group of its own, so that no
 * rollout is in its own copy's baseline. The choice is seeded by the drawn tasks, which follow from seed and step.
 */
export function copiesOf(
  groups: readonly Group[],
  useless: ReadonlyArray<string | undefined>,
  replace: ReplaceSettings | undefined,
): Array<readonly [Group, string]> {
  if (replace === undefined) return [];
  const drawn = groups.slice(-replace.groups);
  const good = groups.filter((_, i) => useless[i] === undefined);
  if (!mayReplace(good.length, drawn.length, replace.minReplaceRatio)) return [];
  const bad = drawn.filter((group) => !good.includes(group));
  return donorsOf(good.length, bad.length, drawn.map(({ task }) => task).join(' ')).flatMap((donor, i) => {
    const group = good[donor];
    return group ? [[group, ` for ${bad[i]?.task}`] as const] : [];
  });
}
