/** How far off policy a step's tokens are, from the versions that sampled them: counted, never estimated. */

import type { Staleness } from '../../protocol/step-record.ts';
import { spreadOf } from '../../reports/spread.ts';

/** `tokens`: by the version that sampled them. `version`: the one that is trained. All 0 without a token. */
export function stalenessOf(tokens: ReadonlyMap<number, number>, version: number): Staleness {
  const counted = [...tokens].filter(([, count]) => count > 0).map(([by, count]) => ({ age: version - by, count }));
  const all = counted.reduce((sum, { count }) => sum + count, 0);
  if (all === 0) return { mean: 0, max: 0, offPolicy: 0 };
  const older = counted.filter(({ age }) => age > 0);
  return {
    mean: counted.reduce((sum, { age, count }) => sum + age * count, 0) / all,
    max: Math.max(...counted.map(({ age }) => age)),
    offPolicy: older.reduce((sum, { count }) => sum + count, 0) / all,
  };
}

/**
 * Under SkyRL's names, for the groups that were trained on. `versions`: those that sampled each group's tokens; the
 * oldest counts. `dropped`: groups that were drawn for these and did not vary; absent if groups are not drawn by need.
 * Returns no metrics if no group was trained on.
 */
export function asyncMetrics(
  versions: ReadonlyArray<readonly number[]>,
  version: number,
  dropped?: number,
): Record<string, number> {
  const ages = versions.flatMap((group) => (group.length === 0 ? [] : [version - spreadOf(group).min]));
  if (ages.length === 0) return {};
  const { mean, max, min } = spreadOf(ages);
  return {
    'async/staleness_mean': mean,
    'async/staleness_max': max,
    'async/staleness_min': min,
    'async/staleness_ratio': ages.filter((age) => age > 0).length / ages.length,
    ...(dropped !== undefined && {
      'async/num_groups_dropped': dropped,
      'async/keep_rate': versions.length / (versions.length + dropped),
    }),
  };
}
