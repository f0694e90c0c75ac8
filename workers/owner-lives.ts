/** Whether the owner of a sandbox's lease, a rollout's workflow, may still act: asked of Temporal, not of local memory. */

import { Client } from '@temporalio/client';
import type { WorkerConnection } from '../connection/temporal-connection.ts';

const ANSWERS_WITHIN_MS = 5_000;
/** A continued workflow is asked for by its id alone: then its newest run answers. */
const ENDED = new Set(['COMPLETED', 'FAILED', 'CANCELLED', 'TERMINATED', 'TIMED_OUT']);

/** False only when Temporal says that the workflow has ended: what it does not know, or does not say in time, lives. */
export function ownerLives({
  connection,
  namespace,
}: Pick<WorkerConnection, 'connection' | 'namespace'>): (owner: string) => Promise<boolean> {
  const client = new Client({ connection, namespace });
  return async (owner) => {
    try {
      const described = await client.withDeadline(Date.now() + ANSWERS_WITHIN_MS, () =>
        client.workflow.getHandle(owner).describe(),
      );
      return !ENDED.has(described.status.name);
    } catch {
      return true;
    }
  };
}
