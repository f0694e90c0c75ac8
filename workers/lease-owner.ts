/** What the owner of a sandbox's lease, a rollout's workflow, is at: asked of Temporal, not of local memory. */

import { Client, WorkflowNotFoundError } from '@temporalio/client';
import type { WorkerConnection } from '../connection/temporal-connection.ts';
import { pendingOf } from './watchdog/find-stalls.ts';
import { WORKFLOW_TASK } from './watchdog/stall.ts';

const ANSWERS_WITHIN_MS = 5_000;
/** A continued workflow is asked for by its id alone: then its newest run answers. */
const ENDED = new Set(['COMPLETED', 'FAILED', 'CANCELLED', 'TERMINATED', 'TIMED_OUT']);
/** Not what makes a sandbox or gives one up: a rollout that waits for that has none that it needs. */
const NEEDS_SANDBOX: ReadonlySet<string> = new Set(['generate', 'agentRun', 'collect', 'holdSandbox', WORKFLOW_TASK]);

type Place = Pick<WorkerConnection, 'connection' | 'namespace'>;

function asking({ connection, namespace }: Place) {
  const client = new Client({ connection, namespace });
  return (owner: string) =>
    client.withDeadline(Date.now() + ANSWERS_WITHIN_MS, () => client.workflow.getHandle(owner).describe());
}

/** Whether it may still act. False only when Temporal says that it has ended: what it does not know, or does not say in time, lives. */
export function ownerLives(place: Place): (owner: string) => Promise<boolean> {
  const ask = asking(place);
  return async (owner) => {
    try {
      return !ENDED.has((await ask(owner)).status.name);
    } catch {
      return true;
    }
  };
}

/** Whether it waits for something after which it needs the sandbox. While Temporal answers nobody, each is taken to wait. */
export function ownerWaits(place: Place): (owner: string) => Promise<boolean> {
  const ask = asking(place);
  return async (owner) => {
    try {
      return pendingOf(await ask(owner)).some(({ activity }) => NEEDS_SANDBOX.has(activity));
    } catch (error) {
      return !(error instanceof WorkflowNotFoundError);
    }
  };
}
