/** Step-wise training: each step of a trajectory is its own row, and all rows get the advantage of the last one. */

import { advantagesByGroup } from './within-group.ts';

export interface Steps {
  /** One per row. */
  readonly scores: readonly number[];
  readonly groups: readonly string[];
  /** True for the last row of a trajectory. The rows of a trajectory follow each other. */
  readonly isLast: readonly boolean[];
}

/** Advantage of each row: estimated from the last rows of each group, then copied to all rows of the trajectory. */
export function stepwiseAdvantages(
  { scores, groups, isLast }: Steps,
  estimate: (rewards: readonly number[]) => readonly number[],
): number[] {
  const last = isLast.flatMap((ends, row) => (ends ? [row] : []));
  const estimated = advantagesByGroup(
    last.map((row) => scores[row] ?? 0),
    last.map((row) => groups[row] ?? ''),
    estimate,
  );
  let trajectory = 0;
  return isLast.map((ends) => {
    const advantage = estimated[trajectory] ?? 0;
    if (ends) trajectory += 1;
    return advantage;
  });
}
