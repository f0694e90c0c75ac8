/** Dynamic sampling: batches are drawn until enough groups vary, or groups that do not are replaced by some that do. Pure. */

import { shuffled } from '../data/batching.ts';
import { rowsByGroup } from './filters.ts';

/** A row as dynamic sampling sees it. */
export interface SampledRow {
  readonly group: string;
  readonly reward: number;
}

/** Where groups were drawn to have one member, every group; a group of which one is left does not vary. */
function varying(rows: readonly SampledRow[], samples: number): Set<string> {
  const good = new Set<string>();
  for (const [group, members] of rowsByGroup(rows.map((row) => row.group))) {
    const rewards = members.map((row) => rows[row]?.reward ?? 0);
    if (samples === 1 || rewards.some((reward) => reward !== rewards[0])) good.add(group);
  }
  return good;
}

/**
 * `filter`: `kept` are the rows so far of groups that vary, `drawn` those of the next batch; once `wanted` groups vary,
 * `enough` holds and the rows are those of the first so many (DAPO: Yu et al. 2025, §3.2). `samples`: a group's size.
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
 * For each of `bad` groups the number of one of `good` that takes its place: in orders drawn by `noiseKey`, each once before
 * any a second time.
 */
export function donorsOf(good: number, bad: number, noiseKey: string): number[] {
  const rounds = good === 0 ? 0 : Math.ceil(bad / good);
  return Array.from({ length: rounds }, (_, round) => shuffled(good, `replace ${noiseKey} ${round * good}`))
    .flat()
    .slice(0, bad);
}

/** Whether so many groups that vary can stand in for the others. */
export const mayReplace = (good: number, groups: number, least: number): boolean => good > least * groups;

/**
 * `replace`: where more than `least` of the groups vary, each other group's rows are overwritten, in order, by those of one
 * that does, drawn by `noiseKey`; else `enough` is false and the batch stands as it is. `rows` are row numbers, `samples` is
 * a group's size.
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
