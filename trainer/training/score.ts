/** Log-probabilities that a policy gives to sequences: forward passes alone, nothing is learnt. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { microBatches } from '../data/batching.ts';
import type { Datum } from '../engine.ts';
import { Learner } from '../learner.ts';
import { type Batching, batchOf } from '../model/packed-batch.ts';
import { countTargets } from '../model/token-batch.ts';
import { readVerifiedConfig, readVerifiedPolicy } from '../checkpoints/verified-checkpoint.ts';

/** Of the tokens that count, for each datum that has some. */
export type Scores = ReadonlyMap<Datum, Float64Array>;

export async function scoresOf(learner: Learner, data: readonly Datum[], batching: Batching): Promise<Scores> {
  const scores = new Map<Datum, Float64Array>();
  for (const micro of microBatches(data, batching)) {
    const { logprobs } = learner.statistics(batchOf(micro, batching), false);
    let from = 0;
    for (const datum of micro) {
      const to = from + countTargets(datum);
      scores.set(datum, Float64Array.from(logprobs.subarray(from, to)));
      from = to;
    }
    // Lets the thread answer its owner between passes.
    await nextTurn();
  }
  return scores;
}

/** By the policy in a directory, which is in memory only meanwhile. Errors: those of reading it. */
export async function scoresOfPolicy(dir: string, data: readonly Datum[], batching: Batching): Promise<Scores> {
  const { weights, adapter } = await readVerifiedPolicy(dir);
  const learner = new Learner(await readVerifiedConfig(dir), weights, adapter);
  try {
    return await scoresOf(learner, data, batching);
  } finally {
    learner.dispose();
  }
}
