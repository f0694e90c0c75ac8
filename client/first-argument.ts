/** What a workflow was started with, whatever became of its histories since. */

import type { Client } from '@temporalio/client';

/** The argument of its first execution; `undefined` where that history is gone. */
export async function firstArgument(
  { workflowService, options }: Client,
  workflowId: string,
  runId: string,
): Promise<unknown> {
  try {
    const execution = { workflowId, runId };
    const { history } = await workflowService.getWorkflowExecutionHistory({
      namespace: options.namespace,
      execution,
      maximumPageSize: 1,
    });
    const [payload] = history?.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
    return payload ? options.loadedDataConverter.payloadConverter.fromPayload(payload) : undefined;
  } catch {
    return undefined;
  }
}
