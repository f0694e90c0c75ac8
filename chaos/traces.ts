/** The results of a run's rollouts: tokens by turn, and reward. Runs of one job have the same, whatever was killed. */

import type { OutcomeRecord } from '../protocol/records.ts';
import { turnsOf } from '../store/read-records.ts';
import type { Store } from '../store/store.ts';

/** By the rollout's name within its run. */
async function tracesOf(run: string, store: Store): Promise<Map<string, string>> {
  const prefix = `outcome:train/${run}/`;
  const traces = new Map<string, string>();
  for (const { key, value } of await store.list<OutcomeRecord>(prefix)) {
    const turns = await turnsOf(store, value);
    traces.set(
      key.slice(prefix.length),
      JSON.stringify([value.status, value.reward, turns.map(({ sampled }) => sampled)]),
    );
  }
  return traces;
}

/** Rollouts that are not in both runs, or have different results. */
export async function differingRollouts(one: string, other: string, store: Store): Promise<string[]> {
  const [mine, theirs] = [await tracesOf(one, store), await tracesOf(other, store)];
  return [...new Set([...mine.keys(), ...theirs.keys()])]
    .filter((rollout) => mine.get(rollout) !== theirs.get(rollout))
    .sort();
}
