/**
 * One batch of rollouts: each is dispatched once and ends once. A failed rollout is a result like any other: it never
 * aborts or blocks the batch. A long batch continues in new histories while its rollouts keep running.
 */

import {
  allHandlersFinished,
  CancellationScope,
  condition,
  ContinueAsNew,
  continueAsNew,
  defineQuery,
  setHandler,
} from '@temporalio/workflow';
import { refusedSetting, type Schedule, scheduleOf } from './batch/dispatch-schedule.ts';
import { gatesOf } from './batch/dispatcher.ts';
import { isLong } from './batch/long-batch.ts';
import { BatchExecution } from './batch/batch-execution.ts';
import type { BatchProgress } from './batch/progress.ts';
import { refusedInput } from './batch/refused-input.ts';
import { reportingBatchEnd } from './batch/report-batch-end.ts';
import { refusedStraggler } from './batch/stragglers.ts';
import { type RolloutHeld, rolloutHeldSignal } from './failures/held-rollout.ts';
import { setOrderedSignalHandlers, on } from './ordered-signals.ts';
import type { BatchInput, BatchResult, BatchStatus } from '../protocol/batch.ts';
import { rolloutEndedSignal } from './rollout/report-end.ts';
import { resolvePolicy } from './rollout/resolve-policy.ts';
import { refuse } from './rollout/resolve-rollout.ts';
import { stageEndedSignal } from './rollout/stage-gates.ts';
import { pauseSignal, resumeSignal } from './rollout.ts';

export const batchStatusQuery = defineQuery<BatchStatus>('status');

/**
 * `progress` is set by continue-as-new only.
 * Errors: a non-retryable `UserInputError` for settings that cannot be used.
 */
export function batch(input: BatchInput, progress?: BatchProgress): Promise<BatchResult> {
  return reportingBatchEnd(input?.unit, () => checkedBatch(input, progress));
}

async function checkedBatch(input: BatchInput, progress?: BatchProgress): Promise<BatchResult> {
  const wrong = refusedInput(input);
  if (wrong) refuse(wrong.field, wrong.value, wrong.remedy);
  resolvePolicy(input.policy, refuse);
  const refused = refusedSetting(input.dispatcher);
  if (refused) refuse(`dispatcher.${refused.field}`, refused.value, refused.remedy);
  const straggler = refusedStraggler(input.stragglers ?? {}, input.samples);
  if (straggler) refuse(`stragglers.${straggler.field}`, straggler.value, straggler.remedy);
  return runBatch(input, scheduleOf(input.dispatcher), progress);
}

/**
 * The whole batch, after its settings were checked. The calling workflow must take `input` and, in a new history,
 * `progress`.
 */
export async function runBatch(
  input: BatchInput,
  schedule: Schedule,
  progress: BatchProgress | undefined,
): Promise<BatchResult> {
  const rollouts = input.tasks.length * input.samples;
  const long = progress !== undefined || isLong(rollouts, gatesOf(rollouts, schedule.caps));
  const open = new BatchExecution(input, schedule, { long, progress });
  setHandler(batchStatusQuery, () => open.status);
  setOrderedSignalHandlers(
    on(pauseSignal, () => open.pause()),
    on(resumeSignal, () => open.resume()),
    on(stageEndedSignal, (id, stage) => open.stageEnded(id, stage)),
    on<RolloutHeld>(rolloutHeldSignal, (id, trip, resumed) => open.rolloutHeld(id, trip, resumed)),
    on(rolloutEndedSignal, (result) => open.rolloutEnded(result)),
  );
  try {
    const over = await open.run();
    if (!over) await condition(allHandlersFinished);
    if (!over) await continueAsNew<typeof batch>(input, open.progress);
    await open.close();
  } catch (error) {
    if (!(error instanceof ContinueAsNew)) await CancellationScope.nonCancellable(() => open.cancel());
    throw error;
  }
  await condition(allHandlersFinished);
  return open.result;
}
