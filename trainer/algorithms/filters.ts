/**
 * Selects the rollouts of a batch that are trained on: groups whose rewards differ, and answers that were not cut off.
 */

export interface GroupedRewards {
  readonly rewards: readonly number[];
  /** Group of each row. */
  readonly groups: readonly string[];
  /** False for rows without a token that counts. Such rows are ignored when their group's rewards are compared. */
  readonly counts?: readonly boolean[];
}

/** The row numbers of each group, in the order of the rows. */
export function rowsByGroup(groups: readonly string[]): Map<string, number[]> {
  const rows = new Map<string, number[]>();
  for (const [row, group] of groups.entries()) rows.set(group, [...(rows.get(group) ?? []), row]);
  return rows;
}

/**
 * Rows to keep, ascending: groups whose largest and smallest reward differ by more than `tolerance`, and groups of one.
 */
export function keepVarying({ rewards, groups, counts }: GroupedRewards, tolerance: number): number[] {
  const kept: number[] = [];
  for (const rows of rowsByGroup(groups).values()) {
    const judged = rows.filter((row) => counts?.[row] ?? true).map((row) => rewards[row] ?? 0);
    const spread = judged.length > 1 ? Math.max(...judged) - Math.min(...judged) : Infinity;
    if (spread > tolerance) kept.push(...rows);
  }
  return kept.sort((a, b) => a - b);
}

/** Overlong filtering: a row's mask becomes all 0 if its stop reason is not `stop` (DAPO: Yu et al. 2025, §3.4). */
export function filterOverlong(masks: ReadonlyArray<readonly number[]>, stopReasons: readonly string[]): number[][] {
  return masks.map((mask, row) => (stopReasons[row] === 'stop' ? [...mask] : mask.map(() => 0)));
}
