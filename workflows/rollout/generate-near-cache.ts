/**
 * A turn is sampled by the GPU worker that has the rollout's context in its cache, and by any other where that one does
 * not answer at once or fails. What is sampled is the same: a cache is never visible in a result.
 */

import { ActivityFailure, ApplicationFailure } from '@temporalio/workflow';
import { gpu, onWorker } from '../activity-stubs.ts';
import { FINAL_ERRORS } from '../../protocol/failure-policy.ts';
import type { GenerateInput, GenerateOutcome } from '../../protocol/stages.ts';

/** Of a rollout. */
export interface CachePlace {
  /** The worker that sampled the last turn; `null` where there is one worker only. */
  readonly worker: string | null;
  /** What a history's length is counted in. */
  rounds: number;
}

/** Another worker would fail alike, or nobody wants an answer any more. */
function isFinal(error: unknown): boolean {
  if (!(error instanceof ActivityFailure)) return true;
  const { cause } = error;
  if (cause instanceof ApplicationFailure)
    return cause.nonRetryable === true || FINAL_ERRORS.includes(cause.type ?? '');
  return cause?.name === 'CancelledFailure';
}

/** What the worker that has the cache took in vain is lost. Errors: those of the activity. */
export async function generateNearCache(place: CachePlace, input: GenerateInput): Promise<GenerateOutcome> {
  const { worker } = place;
  if (worker === null) return gpu.generate(input);
  const begun = Date.now();
  try {
    return await onWorker(worker).generate(input);
  } catch (error) {
    if (isFinal(error)) throw error;
    place.rounds += 1;
    const nearMs = Date.now() - begun;
    const outcome = await gpu.generate(input);
    return { ...outcome, lostMs: nearMs + (outcome.lostMs ?? 0) };
  }
}
