/** Whether the owner of a sandbox's lease, a rollout's workflow, waits for something after which it needs the sandbox: asked of Temporal. */

import { Client, WorkflowNotFoundError } from '@temporalio/client';
import type { WorkerConnection } from '../connection/temporal-connection.ts';
import { pendingOf } from './watchdog/find-stalls.ts';
import { WORKFLOW_TASK } from './watchdog/stall.ts';

const ANSWERS_WITHIN_MS = 5_000;
/** Not what makes a sandbox or gives one up: a rollout that waits for that has none that it needs. */
const NEEDS_SANDBOX: ReadonlySet<string> = new Set(['generate', 'agentRun', 'collect', 'holdSandbox', WORKFLOW_TASK]);

/** While Temporal answers nobody, no workflow goes on, and each is taken to wait. */
export function ownerWaits({
  connection,
  namespace,
}: Pick<WorkerConnection, 'connection' | 'namespace'>): (owner: string) => Promise<boolean> {
  const client = new Client({ connection, namespace });
  return async (owner) => {
    try {
      const described = await client.withDeadline(Date.now() + ANSWERS_WITHIN_MS, () =>
        client.workflow.getHandle(owner).describe(),
      );
      return pendingOf(described).some(({ activity }) => NEEDS_SANDBOX.has(activity));
    } catch (error) {
      return !(error instanceof WorkflowNotFoundError);
    }
  };
}
