/**
 * A rollout whose parent may have continued in a new history reports its end by a signal, before it ends: Temporal
 * reports the end of a child only to the history that started it.
 */

import {
  CancellationScope,
  ContinueAsNew,
  defineSignal,
  getExternalWorkflowHandle,
  isCancellation,
  workflowInfo,
} from '@temporalio/workflow';
import type { RolloutInput, RolloutResult } from '../../protocol/rollout.ts';

/** To the parent. */
export const rolloutEndedSignal = defineSignal<[RolloutResult]>('rolloutEnded');

/** The result of a rollout that ended without one. */
export function unfinished(rollout: string, task: string, error: unknown): RolloutResult {
  const message = (error instanceof Error ? error.message : String(error)).slice(0, 300);
  const failure = isCancellation(error) ? 'cancelled' : 'internal';
  return { rollout, task, status: 'failed', attempt: 1, turns: 0, failure, message };
}

async function report(result: RolloutResult): Promise<void> {
  const { parent } = workflowInfo();
  if (!parent) return;
  await CancellationScope.nonCancellable(async () => {
    try {
      await getExternalWorkflowHandle(parent.workflowId).signal(rolloutEndedSignal, result);
    } catch {
      // The parent has ended: nobody waits for this.
    }
  });
}

/** Does `work`, and reports how it ended if `reportsEnd` is set. A new history of the rollout is not an end. */
export async function reportingEnd(
  given: Pick<RolloutInput, 'task' | 'reportsEnd'> | undefined,
  work: () => Promise<RolloutResult>,
): Promise<RolloutResult> {
  if (!given?.reportsEnd) return work();
  try {
    const result = await work();
    await report(result);
    return result;
  } catch (error) {
    if (!(error instanceof ContinueAsNew)) await report(unfinished(workflowInfo().workflowId, given.task, error));
    throw error;
  }
}
