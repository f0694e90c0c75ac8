/** Why a workflow task fails repeatedly: the history, read from its end, has only the first failure of the series. */

import type { Client } from '@temporalio/client';

/** Events to read: signals may have come after the failure. */
const EVENTS = 50;
/** Of `temporal.api.enums.v1`: the current code would not have written this history. */
const NON_DETERMINISTIC = 24;

export interface FailedTask {
  readonly failure: { readonly error: string; readonly message: string };
  /** Milliseconds since the epoch; absent if the history does not have it. */
  readonly since?: number;
}

const UNKNOWN: FailedTask = {
  failure: { error: 'WorkflowTaskFailed', message: 'the reason is in the log: npx longhaul logs orchestrator' },
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

/** Never throws: the failure is unknown if the history cannot be read. */
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
