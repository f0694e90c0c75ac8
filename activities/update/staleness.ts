/** How far off policy a step's tokens are, from the versions that sampled them: counted, never estimated. */

import type { Staleness } from '../../workflows/messages/step-record.ts';

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
