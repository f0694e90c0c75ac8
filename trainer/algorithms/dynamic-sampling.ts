/**
 * Dynamic sampling: batches are drawn until the rewards of enough groups vary, or groups whose rewards are all equal
 * are replaced by groups that vary. Pure.
 */

import { shuffled } from '../data/batching.ts';
import { rowsByGroup } from './filters.ts';

/** What dynamic sampling needs of a rollout. */
export interface SampledRow {
  readonly group: string;
  readonly reward: number;
}

/**
 * Groups whose rewards differ. If the group size `samples` is 1, all groups; if it is larger, a group with one
 * remaining member does not vary.
 */
function varying(rows: readonly SampledRow[], samples: number): Set<string> {
  const good = new Set<string>();
  for (const [group, members] of rowsByGroup(rows.map((row) => row.group))) {
    const rewards = members.map((row) => rows[row]?.reward ?? 0);
    if (samples === 1 || rewards.some((reward) => reward !== rewards[0])) good.add(group);
  }
  return good;
}

/**
 * `filter`: `kept` are the rows of the groups that vary so far, `drawn` are the rows of the next batch. `enough` is
 * true once `wanted.groups` groups vary; the result then has the rows of the first `wanted.groups` groups (DAPO: Yu et
 * al. 2025, §3.2). `samples` is a group's size.
 */
export function filterGroups<T extends SampledRow>(
  kept: readonly T[],
  drawn: readonly T[],
  wanted: { readonly groups: number; readonly samples: number },
): { readonly enough: boolean; readonly rows: T[] } {
  const good = varying(drawn, wanted.samples);
  const rows = [...kept, ...drawn.filter((row) => good.has(row.group))];
  const groups = new Set(rows.map((row) => row.group)).size;
  return groups < wanted.groups
    ? { enough: false, rows }
    : { enough: true, rows: rows.slice(0, wanted.groups * wanted.samples) };
}

/**
 * For each of `bad` groups, the index of the one of `good` groups that replaces it. The order is drawn by `noiseKey`;
 * each good group is used once before any is used a second time.
 */
export function donorsOf(good: number, bad: number, noiseKey: string): number[] {
  const rounds = good === 0 ? 0 : Math.ceil(bad / good);
  return Array.from({ length: rounds }, (_, round) => shuffled(good, `replace ${noiseKey} ${round * good}`))
    .flat()
    .slice(0, bad);
}

/** True if enough groups vary to replace the others. */
export const mayReplace = (good: number, groups: number, least: number): boolean => good > least * groups;

/**
 * `replace`: if the share of groups that vary is above `least`, the rows of each other group are overwritten, in order,
 * by the rows of a group that varies, drawn by `noiseKey`. Otherwise `enough` is false and the batch is unchanged.
 * `rows` are row numbers, `samples` is a group's size.
 */
export function replaceGroups(
  drawn: readonly SampledRow[],
  { least, samples }: { readonly least: number; readonly samples: number },
  noiseKey: string,
): { readonly enough: boolean; readonly rows: number[] } {
  const byGroup = rowsByGroup(drawn.map((row) => row.group));
  const good = varying(drawn, samples);
  const rows = drawn.map((_, row) => row);
  if (!mayReplace(good.size, byGroup.size, least)) return { enough: false, rows };
  const donors = [...good];
  const bad = [...byGroup].filter(([group]) => !good.has(group));
  const order = donorsOf(donors.length, bad.length, noiseKey);
  for (const [i, [, members]] of bad.entries()) {
    const donor = byGroup.get(donors[order[i] ?? 0] ?? '') ?? members;
    for (const [k, row] of members.entries()) rows[row] = donor[k % donor.length] ?? row;
  }
  return { enough: true, rows };
}
