/**
 * A turn is sampled by the GPU worker that has the rollout's context in its cache, or by any other worker if that one
 * does not answer at once or fails. The result is the same: a cache is never visible in it.
 */

import { ActivityFailure, ApplicationFailure } from '@temporalio/workflow';
import { onWorker, sampling } from '../activity-stubs.ts';
import { FINAL_ERRORS } from '../../protocol/failure-policy.ts';
import type { GenerateInput, GenerateOutcome } from '../../protocol/stages.ts';

/** Where a rollout's context is cached. */
export interface CachePlace {
  /** The worker that sampled the last turn; `null` if there is only one worker. */
  readonly worker: string | null;
  /** Counts the history's length; see `Context.rounds`. */
  rounds: number;
}

/** True if another worker would fail alike, or if nobody waits for an answer any more. */
function isFinal(error: unknown): boolean {
  if (!(error instanceof ActivityFailure)) return true;
  const { cause } = error;
  if (cause instanceof ApplicationFailure)
    return cause.nonRetryable === true || FINAL_ERRORS.includes(cause.type ?? '');
  return cause?.name === 'CancelledFailure';
}

/**
 * `kind`: of the engines that sample it; `undefined`: any. The time that the worker with the cache took without a
 * result counts as lost. Errors: those of the activity.
 */
export async function generateNearCache(
  place: CachePlace,
  input: GenerateInput,
  kind: string | undefined,
): Promise<GenerateOutcome> {
  const { worker } = place;
  if (worker === null) return sampling(kind).generate(input);
  const begun = Date.now();
  try {
    return await onWorker(worker).generate(input);
  } catch (error) {
    if (isFinal(error)) throw error;
    place.rounds += 1;
    const nearMs = Date.now() - begun;
    const outcome = await sampling(kind).generate(input);
    return { ...outcome, lostMs: nearMs + (outcome.lostMs ?? 0) };
  }
}
