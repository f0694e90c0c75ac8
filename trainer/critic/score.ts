/** Values that a critic gives to sequences: forward passes alone, nothing is learnt. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { microBatches } from '../data/batching.ts';
import type { Datum } from '../engine.ts';
import { type Batching, batchOf } from '../model/packed-batch.ts';
import { countTargets } from '../model/token-batch.ts';
import type { Sample } from '../training/sample.ts';
import type { ValueModel } from './value-model.ts';

/** Each sample with its tokens' values, as they are before the first step. */
export async function withValues(model: ValueModel, samples: readonly Sample[], batching: Batching): Promise<Sample[]> {
  const values = new Map<Datum, Float64Array>();
  const data = samples.flatMap(({ datum, count }) => (count > 0 ? [datum] : []));
  for (const micro of microBatches(data, batching)) {
    const given = model.values(batchOf(micro, batching));
    let from = 0;
    for (const datum of micro) {
      const to = from + countTargets(datum);
      values.set(datum, Float64Array.from(given.subarray(from, to)));
      from = to;
    }
    // Lets the thread answer its owner between passes.
    await nextTurn();
  }
  return samples.map((sample) => ({ ...sample, values: values.get(sample.datum) ?? new Float64Array(0) }));
}
