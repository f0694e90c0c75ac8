/** The state of the rollout workflow that owns a sandbox's lease, as Temporal reports it, not from local memory. */

import { Client, WorkflowNotFoundError } from '@temporalio/client';
import type { WorkerConnection } from '../connection/temporal-connection.ts';
import { pendingOf } from './watchdog/find-stalls.ts';
import { WORKFLOW_TASK } from './watchdog/stall.ts';

const ANSWERS_WITHIN_MS = 5_000;
/** Workflows are described by id alone, so that the newest execution of a continued one answers. */
const ENDED = new Set(['COMPLETED', 'FAILED', 'CANCELLED', 'TERMINATED', 'TIMED_OUT']);
/** Activities after which the rollout needs its sandbox; those that make or release a sandbox are not among them. */
const NEEDS_SANDBOX: ReadonlySet<string> = new Set([
  'generate',
  'agentRun',
  'collect',
  'gradeInPlace',
  'holdSandbox',
  'runProgram',
  'recordReports',
  WORKFLOW_TASK,
]);

type Place = Pick<WorkerConnection, 'connection' | 'namespace'>;

function asking({ connection, namespace }: Place) {
  const client = new Client({ connection, namespace });
  return (owner: string) =>
    client.withDeadline(Date.now() + ANSWERS_WITHIN_MS, () => client.workflow.getHandle(owner).describe());
}

/** True if the owner may still act. False only if Temporal reports its end: no answer in time counts as alive. */
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

/**
 * True if the owner waits for something after which it needs the sandbox, or if Temporal does not answer. One that has
 * ended waits for nothing.
 */
export function ownerWaits(place: Place): (owner: string) => Promise<boolean> {
  const ask = asking(place);
  return async (owner) => {
    try {
      const described = await ask(owner);
      // The description of a workflow that was terminated keeps a task that no worker took.
      if (ENDED.has(described.status.name)) return false;
      return pendingOf(described).some(({ activity }) => NEEDS_SANDBOX.has(activity));
    } catch (error) {
      return !(error instanceof WorkflowNotFoundError);
    }
  };
}
