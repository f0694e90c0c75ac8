/** Step-wise training: the steps of a trajectory are rows of their own, and all of them get what its last one gets. */

import { advantagesByGroup } from './within-group.ts';

export interface Steps {
  /** Of each row. */
  readonly scores: readonly number[];
  readonly groups: readonly string[];
  /** Where a trajectory ends; its rows stand one after the other. */
  readonly isLast: readonly boolean[];
}

/** The rows' advantages: estimated among the last rows of each group, then given to every row of the trajectory. */
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
