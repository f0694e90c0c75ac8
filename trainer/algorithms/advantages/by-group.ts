/** A group estimator over a batch: each score is compared with those of its own group alone, in the order of the batch. */

/** `scores[i]` belongs to the group `groups[i]`; returns as many advantages. Errors: a `RangeError` for an estimate of another length. */
export function advantagesByGroup(
  scores: readonly number[],
  groups: readonly string[],
  estimate: (rewards: readonly number[]) => readonly number[],
): number[] {
  const members = new Map<string, number[]>();
  for (const [i, group] of groups.entries()) members.set(group, [...(members.get(group) ?? []), i]);
  const advantages = scores.map(() => 0);
  for (const [group, rows] of members) {
    const estimated = estimate(rows.map((row) => scores[row] ?? 0));
    if (estimated.length !== rows.length)
      throw new RangeError(`${estimated.length} advantages for the ${rows.length} rewards of ${group}`);
    for (const [i, row] of rows.entries()) advantages[row] = estimated[i] ?? 0;
  }
  return advantages;
}
