/** The bundle of `bench dispatch`: the real batch and rollout, and the real batch in SkyRL-Agent's order. */

import { runBatch } from '../../../workflows/batch.ts';
import type { BatchInput, BatchResult } from '../../../workflows/messages/batch.ts';
import { skyrlPipeline } from './orders.ts';

export { batch } from '../../../workflows/batch.ts';
export { rollout } from '../../../workflows/rollout.ts';

export async function referenceBatch(input: BatchInput, run: number, evaluation: number): Promise<BatchResult> {
  return runBatch(input, skyrlPipeline(run, evaluation));
}
