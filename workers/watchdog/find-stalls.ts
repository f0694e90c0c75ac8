/** Asks Temporal what the open workflows of a run wait for, and finds what has taken too long. It changes nothing. */

import { type Client, type WorkflowExecutionDescription, WorkflowNotFoundError } from '@temporalio/client';
import { ApplicationFailure, DefaultFailureConverter, defaultPayloadConverter } from '@temporalio/common';
import { classOfCause } from '../../workflows/failures/classify-failure.ts';
import { hostQueue, QUEUES } from '../../protocol/queues.ts';
import { chooseWorkflows, type OpenWorkflow } from './choose-workflows.ts';
import { failedTaskOf, millis } from './failed-task.ts';
import { FAILING_ATTEMPT, type Pending, type Stall, stallsOf, WORKFLOW_TASK } from './stall.ts';

/** The most open workflows that are listed, the newest first; older ones stay unknown. */
const LISTED = 10_000;
const PAGE = 1_000;
const ASKED_AT_ONCE = 16;
/** A poll lasts a minute; a worker without a poll for longer than this is gone. */
const POLLS_WITHIN_MS = 90_000;
/** Of `temporal.api.enums.v1`: started, cancel requested, and pause requested. */
const UNDER_WAY: ReadonlySet<unknown> = new Set([2, 3, 5]);
const PAUSED = 4;
const TASK_QUEUE_TYPE = { workflow: 1, activity: 2 } as const;

const QUEUE_OF: Readonly<Record<string, string>> = {
  prepare: QUEUES.init,
  restoreSandbox: QUEUES.init,
  generate: QUEUES.gpu,
  update: QUEUES.gpu,
  planUpdate: QUEUES.gpu,
  forwardBackward: QUEUES.gpu,
  optimStep: QUEUES.gpu,
  computeReward: QUEUES.reward,
  agentRun: hostQueue('its host'),
  gradeInPlace: hostQueue('its host'),
  collect: hostQueue('its host'),
  releaseSandbox: hostQueue('its host'),
  holdSandbox: hostQueue('its host'),
};

const stateOf = (state: unknown): 'started' | 'scheduled' => (UNDER_WAY.has(state) ? 'started' : 'scheduled');

const converter = new DefaultFailureConverter();

/** The failure of an attempt: a timeout has no error name, so its failure class is given. */
function failureOf(error: Error): NonNullable<Pending['failure']> {
  const failure = classOfCause(error);
  return { error: (error instanceof ApplicationFailure && error.type) || failure, message: error.message, failure };
}

/** What one workflow waits for: its activities, and its workflow task if that is pending. */
export function pendingOf({ workflowId, raw }: Pick<WorkflowExecutionDescription, 'workflowId' | 'raw'>): Pending[] {
  const pending = (raw.pendingActivities ?? []).map((one): Pending => {
    const activity = one.activityType?.name ?? 'activity';
    const state = one.state === PAUSED ? 'paused' : stateOf(one.state);
    const { lastFailure } = one;
    const since = {
      scheduled: one.scheduledTime,
      started: one.lastStartedTime,
      paused: one.pauseInfo?.pauseTime ?? one.scheduledTime,
    }[state];
    return {
      workflow: workflowId,
      activity,
      queue: one.activityOptions?.taskQueue?.name || (QUEUE_OF[activity] ?? QUEUES.orchestrator),
      state,
      attempt: one.attempt ?? 1,
      since: millis(since),
      ...(lastFailure ? { failure: failureOf(converter.failureToError(lastFailure, defaultPayloadConverter)) } : {}),
    };
  });
  const task = raw.pendingWorkflowTask;
  if (!task) return pending;
  const state = stateOf(task.state);
  const since = millis(task.originalScheduledTime) || millis(task.scheduledTime);
  return [
    ...pending,
    {
      workflow: workflowId,
      activity: WORKFLOW_TASK,
      queue: QUEUES.orchestrator,
      state,
      attempt: task.attempt ?? 1,
      since,
    },
  ];
}

/** Adds reason and time of a failing workflow task: Temporal reports only the number of attempts. */
async function explained(client: Client, pending: Pending): Promise<Pending> {
  if (pending.activity !== WORKFLOW_TASK || pending.attempt < FAILING_ATTEMPT) return pending;
  const { failure, since = pending.since } = await failedTaskOf(client, pending.workflow);
  return { ...pending, failure, since };
}

/** The number of workers that poll a queue; each queue is queried once. */
function pollersOf(client: Client): (pending: Pending) => Promise<number> {
  const known = new Map<string, Promise<number>>();
  const ask = async (name: string, taskQueueType: number): Promise<number> => {
    const { namespace } = client.options;
    const { pollers } = await client.workflowService.describeTaskQueue({
      namespace,
      taskQueue: { name },
      taskQueueType,
    });
    return (pollers ?? []).filter(({ lastAccessTime }) => Date.now() - millis(lastAccessTime) < POLLS_WITHIN_MS).length;
  };
  return ({ queue, activity }) => {
    const type = activity === WORKFLOW_TASK ? TASK_QUEUE_TYPE.workflow : TASK_QUEUE_TYPE.activity;
    const key = `${type} ${queue}`;
    const asked = known.get(key) ?? ask(queue, type);
    known.set(key, asked);
    return asked;
  };
}

async function listed(client: Client, query: string): Promise<OpenWorkflow[]> {
  const found: OpenWorkflow[] = [];
  for await (const { workflowId: id, type, startTime } of client.workflow.list({ query, pageSize: PAGE })) {
    found.push({ id, type, startedAt: startTime.getTime() });
    if (found.length >= LISTED) break;
  }
  return found;
}

/** The run's or the eval's own workflow, which a list may miss: if its first task fails it has no search attributes. */
export const ownerOf = (run: string): string => (run.startsWith('eval/') ? run : `train/${run}`);

async function workflowsToAsk(client: Client, run: string): Promise<string[]> {
  const open = `LonghaulRun = ${JSON.stringify(run)} AND ExecutionStatus = "Running"`;
  const [others, rollouts] = await Promise.all([
    listed(client, `${open} AND WorkflowType != "rollout"`),
    listed(client, `${open} AND WorkflowType = "rollout"`),
  ]);
  return [...new Set([ownerOf(run), ...chooseWorkflows([...others, ...rollouts])])];
}

async function pendingIn(client: Client, workflow: string): Promise<Pending[]> {
  const described = await client.workflow.getHandle(workflow).describe();
  return Promise.all(pendingOf(described).map((pending) => explained(client, pending)));
}

/**
 * The stalls of a run, or of an eval under `eval/ID`. Examines the workflows that others wait for, and the oldest and
 * the newest rollouts (`SHARES`). Errors: those of Temporal's client.
 */
export async function findStalls(client: Client, run: string, now = Date.now()): Promise<Stall[]> {
  const ids = await workflowsToAsk(client, run);
  const found: Pending[] = [];
  for (let from = 0; from < ids.length; from += ASKED_AT_ONCE) {
    const some = await Promise.allSettled(ids.slice(from, from + ASKED_AT_ONCE).map((id) => pendingIn(client, id)));
    throwIfUnanswered(some);
    found.push(...some.flatMap((one) => (one.status === 'fulfilled' ? one.value : [])));
  }
  return stallsOf(found, pollersOf(client), now);
}

/** A workflow that is not found has ended meanwhile; any other error means that the server did not answer. */
function throwIfUnanswered(some: ReadonlyArray<PromiseSettledResult<unknown>>): void {
  const failed = some.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
  const unanswered = failed.find((error) => !(error instanceof WorkflowNotFoundError));
  if (unanswered !== undefined) throw unanswered;
}

/** Open runs and evals, named as in `LonghaulRun`. */
export async function openRuns(client: Client): Promise<string[]> {
  const runs: string[] = [];
  for await (const { workflowId } of client.workflow.list({
    query: 'WorkflowType IN ("train", "evalSweep") AND ExecutionStatus = "Running"',
  })) {
    runs.push(workflowId.replace(/^train\//, ''));
  }
  return runs;
}
