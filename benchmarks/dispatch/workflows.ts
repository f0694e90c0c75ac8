/** The bundle of `bench dispatch`: the real batch and rollout, and the real batch in SkyRL-Agent's order. */

import { runBatch } from '../../workflows/batch.ts';
import type { BatchProgress } from '../../workflows/batch/progress.ts';
import type { BatchInput, BatchResult } from '../../protocol/batch.ts';
import { skyrlPipeline } from './orders.ts';

export { batch } from '../../workflows/batch.ts';
export { rollout } from '../../workflows/rollout.ts';

/** SkyRL-Agent's caps, beside what a batch is given. */
export interface ReferenceInput extends BatchInput {
  readonly reference: { readonly run: number; readonly evaluation: number };
}

export async function referenceBatch(input: ReferenceInput, progress?: BatchProgress): Promise<BatchResult> {
  return runBatch(input, skyrlPipeline(input.reference.run, input.reference.evaluation), progress);
}
