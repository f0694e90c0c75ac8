/** Log-probabilities of sequences under a policy, and values by a critic: forward passes without training. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { microBatches } from '../data/batching.ts';
import type { Datum } from '../update-request.ts';
import { batchOf } from '../model/packed-batch.ts';
import type { Batching, Scores } from '../passes.ts';
import { type TokenBatch, countTargets } from '../model/token-batch.ts';
import type { Sample } from './sample.ts';
import type { ValueModel } from '../critic/value-model.ts';
import type { Learner } from '../learner.ts';

async function byDatum(
  data: readonly Datum[],
  batching: Batching,
  pass: (batch: TokenBatch) => Float32Array,
): Promise<Scores> {
  const scores = new Map<Datum, Float64Array>();
  for (const micro of microBatches(data, batching)) {
    const given = pass(batchOf(micro, batching));
    let from = 0;
    for (const datum of micro) {
      const to = from + countTargets(datum);
      scores.set(datum, Float64Array.from(given.subarray(from, to)));
      from = to;
    }
    // Lets the thread handle messages between passes.
    await nextTurn();
  }
  return scores;
}

export function scoresOf(learner: Learner, data: readonly Datum[], batching: Batching): Promise<Scores> {
  return byDatum(data, batching, (batch) => learner.forward(batch, false).logprobs);
}

/** Each sample with its tokens' values before the first step. */
export async function withValues(model: ValueModel, samples: readonly Sample[], batching: Batching): Promise<Sample[]> {
  const data = samples.flatMap(({ datum, count }) => (count > 0 ? [datum] : []));
  const values = await byDatum(data, batching, (batch) => model.values(batch));
  return samples.map((sample) => ({ ...sample, values: values.get(sample.datum) ?? new Float64Array(0) }));
}
