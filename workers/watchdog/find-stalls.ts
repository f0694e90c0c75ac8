/** Asks Temporal what the open workflows of a run wait for, and which of that has taken too long. It changes nothing. */

import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { hostQueue, QUEUES } from '../../workflows/queues.ts';
import { type Pending, type Stall, stallOf } from './stall.ts';

/** Workflows that one look asks about: what is stuck is seldom alone. */
const LOOKED_AT = 200;
const ASKED_AT_ONCE = 16;
/** A poll lasts a minute; who has not asked for longer is gone. */
const POLLS_WITHIN_MS = 90_000;
/** Of `temporal.api.enums.v1`. */
const STARTED = 2;
const TASK_QUEUE_TYPE = { workflow: 1, activity: 2 } as const;

const QUEUE_OF: Readonly<Record<string, string>> = {
  prepareSandbox: QUEUES.init,
  restoreSandbox: QUEUES.init,
  generate: QUEUES.gpu,
  update: QUEUES.gpu,
  planUpdate: QUEUES.gpu,
  forwardBackward: QUEUES.gpu,
  optimStep: QUEUES.gpu,
  computeReward: QUEUES.reward,
  agentRun: hostQueue('its host'),
  collect: hostQueue('its host'),
  releaseSandbox: hostQueue('its host'),
  holdSandbox: hostQueue('its host'),
};

type Timestamp = { readonly seconds?: { toString(): string } | null; readonly nanos?: number | null } | null | undefined;

const millis = (at: Timestamp): number => Number(at?.seconds?.toString() ?? 0) * 1000 + Math.floor((at?.nanos ?? 0) / 1e6);

/** What one workflow waits for: its activities, and its own task where that has not been taken. */
export function pendingOf({ workflowId, raw }: Pick<WorkflowExecutionDescription, 'workflowId' | 'raw'>): Pending[] {
  const pending = (raw.pendingActivities ?? []).map((one): Pending => {
    const activity = one.activityType?.name ?? 'activity';
    const started = one.state === STARTED;
    const { lastFailure } = one;
    return {
      workflow: workflowId,
      activity,
      queue: one.activityOptions?.taskQueue?.name || (QUEUE_OF[activity] ?? QUEUES.orchestrator),
      state: started ? 'started' : 'scheduled',
      attempt: one.attempt ?? 1,
      since: millis(started ? one.lastStartedTime : one.scheduledTime),
      ...(lastFailure ? { failure: { error: lastFailure.applicationFailureInfo?.type ?? 'timeout', message: lastFailure.message ?? '' } } : {}),
    };
  });
  const task = raw.pendingWorkflowTask;
  if (!task) return pending;
  const state = task.state === STARTED ? 'started' : 'scheduled';
  return [...pending, { workflow: workflowId, activity: 'workflow task', queue: QUEUES.orchestrator, state, attempt: task.attempt ?? 1, since: millis(task.scheduledTime) }];
}

/** How many workers poll a queue; each queue is asked about once. */
function pollersOf(client: Client): (pending: Pending) => Promise<number> {
  const known = new Map<string, Promise<number>>();
  const ask = async (name: string, taskQueueType: number): Promise<number> => {
    const { namespace } = client.options;
    const { pollers } = await client.workflowService.describeTaskQueue({ namespace, taskQueue: { name }, taskQueueType });
    return (pollers ?? []).filter(({ lastAccessTime }) => Date.now() - millis(lastAccessTime) < POLLS_WITHIN_MS).length;
  };
  return ({ queue, activity }) => {
    const type = activity === 'workflow task' ? TASK_QUEUE_TYPE.workflow : TASK_QUEUE_TYPE.activity;
    const key = `${type} ${queue}`;
    const asked = known.get(key) ?? ask(queue, type);
    known.set(key, asked);
    return asked;
  };
}

async function openWorkflows(client: Client, run: string): Promise<string[]> {
  const ids: string[] = [];
  const query = `LonghaulRun = ${JSON.stringify(run)} AND ExecutionStatus = "Running"`;
  for await (const { workflowId } of client.workflow.list({ query, pageSize: LOOKED_AT })) {
    ids.push(workflowId);
    if (ids.length >= LOOKED_AT) break;
  }
  return ids;
}

/** Of at most 200 open workflows of a run, or of an eval under `eval/ID`. Errors: those of Temporal's client. */
export async function findStalls(client: Client, run: string, now = Date.now()): Promise<Stall[]> {
  const ids = await openWorkflows(client, run);
  const pollers = pollersOf(client);
  const stalls: Stall[] = [];
  for (let from = 0; from < ids.length; from += ASKED_AT_ONCE) {
    const some = await Promise.allSettled(ids.slice(from, from + ASKED_AT_ONCE).map((id) => client.workflow.getHandle(id).describe()));
    // One that cannot be described has ended meanwhile.
    for (const pending of some.flatMap((one) => (one.status === 'fulfilled' ? pendingOf(one.value) : []))) {
      const stall = stallOf(pending, await pollers(pending), now);
      if (stall) stalls.push(stall);
    }
  }
  return stalls;
}

/** Runs and evals that are open, as in `LonghaulRun`. */
export async function openRuns(client: Client): Promise<string[]> {
  const runs: string[] = [];
  for await (const { workflowId } of client.workflow.list({ query: 'WorkflowType IN ("train", "evalSweep") AND ExecutionStatus = "Running"' })) {
    runs.push(workflowId.replace(/^train\//, ''));
  }
  return runs;
}
