/**
 * One lane of the Tinker API: the operations of a model, or the samples of a base. It runs one activity at a time,
 * which drains the lane, and ends when the lane was idle for long; the next request starts it again. Requests are in
 * the journal alone: no event of a history is about one.
 */

import {
  ActivityFailure,
  condition,
  continueAsNew,
  defineSignal,
  isCancellation,
  proxyActivities,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import { RETRIES } from '../protocol/failure-policy.ts';
import { kindQueue } from '../protocol/queues.ts';
import {
  type DrainOutcome,
  TINKER_QUEUE,
  TINKER_WAKE,
  type TinkerActivities,
  type TinkerWorkflowInput,
} from '../protocol/tinker-lanes.ts';

export const wake = defineSignal(TINKER_WAKE);

/** An idle lane's workflow ends after this time. */
const IDLE = '10m';
/** Events of a history, after which another one continues. A drain takes about ten. */
const HISTORY_EVENTS = 2_000;
const AFTER_FAILURE = '10s';

/** Temporal retries without a limit: the journal counts, and fails what cannot be done. */
function draining(kind: string | undefined) {
  const { firstMs, factor, longestMs } = RETRIES.gpu;
  return proxyActivities<TinkerActivities>({
    taskQueue: kindQueue(TINKER_QUEUE, kind),
    startToCloseTimeout: '2h',
    heartbeatTimeout: '15s',
    retry: { initialInterval: firstMs, backoffCoefficient: factor, maximumInterval: longestMs },
  });
}

/** A failure that Temporal does not retry: the lane is not lost by it. */
async function drained(lane: TinkerWorkflowInput['lane'], kind: string | undefined): Promise<DrainOutcome> {
  try {
    return await draining(kind).drainTinkerLane({ lane });
  } catch (error) {
    if (!(error instanceof ActivityFailure) || isCancellation(error)) throw error;
    await sleep(AFTER_FAILURE);
    return { end: 'more' };
  }
}

export async function tinkerModel({ lane, kind: known }: TinkerWorkflowInput): Promise<void> {
  let isAsked = false;
  setHandler(wake, () => {
    isAsked = true;
  });
  // A sample has no state: one that was not answered may be drawn by an engine of another kind.
  const isPinned = lane.what === 'model';
  const kind = known ?? (isPinned ? (await draining(undefined).openTinkerLane({ lane })).kind : undefined);
  for (;;) {
    isAsked = false;
    const { end } = await drained(lane, kind);
    if (end === 'idle' && !isAsked && !(await condition(() => isAsked, IDLE))) return;
    const { historyLength, continueAsNewSuggested } = workflowInfo();
    if (historyLength >= HISTORY_EVENTS || continueAsNewSuggested)
      await continueAsNew<typeof tinkerModel>({ lane, ...(kind === undefined ? {} : { kind }) });
  }
}
