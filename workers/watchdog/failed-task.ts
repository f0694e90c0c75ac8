/**
 * Why a workflow's own task fails again and again: only the first failure of such a row is in its history, which this
 * reads from the end.
 */

import type { Client } from '@temporalio/client';

/** Signals may have come since. */
const EVENTS = 50;
/** Of `temporal.api.enums.v1`: the history is not one that the code of today would have written. */
const NON_DETERMINISTIC = 24;

export interface FailedTask {
  readonly failure: { readonly error: string; readonly message: string };
  /** Milliseconds since the epoch; absent: its history says no more. */
  readonly since?: number;
}

const UNKNOWN: FailedTask = {
  failure: { error: 'WorkflowTaskFailed', message: 'the log of the orchestrator says why' },
};

interface FailedEvent {
  readonly eventTime?: Timestamp;
  readonly workflowTaskFailedEventAttributes?: {
    readonly cause?: number | null;
    readonly failure?: {
      readonly message?: string | null;
      readonly applicationFailureInfo?: { readonly type?: string | null } | null;
    } | null;
  } | null;
}

function readFailure({ eventTime, workflowTaskFailedEventAttributes: failed }: FailedEvent): FailedTask {
  const { cause, failure } = failed ?? {};
  const error =
    cause === NON_DETERMINISTIC ? 'NonDeterminism' : failure?.applicationFailureInfo?.type || 'WorkflowTaskFailed';
  return { failure: { error, message: failure?.message || UNKNOWN.failure.message }, since: millis(eventTime) };
}

/** Never fails. */
export async function failedTaskOf(client: Client, workflowId: string): Promise<FailedTask> {
  const { namespace } = client.options;
  try {
    const { history } = await client.workflowService.getWorkflowExecutionHistoryReverse({
      namespace,
      execution: { workflowId },
      maximumPageSize: EVENTS,
    });
    const last = history?.events?.find(({ workflowTaskFailedEventAttributes }) => workflowTaskFailedEventAttributes);
    return last ? readFailure(last) : UNKNOWN;
  } catch {
    return UNKNOWN;
  }
}

/** A time as Temporal's API gives it. */
export type Timestamp =
  | { readonly seconds?: { toString(): string } | null; readonly nanos?: number | null }
  | null
  | undefined;

/** Milliseconds since the epoch. */
export const millis = (at: Timestamp): number =>
  Number(at?.seconds?.toString() ?? 0) * 1000 + Math.floor((at?.nanos ?? 0) / 1e6);
