/** Whether work waits for a worker of a role, from the pending activities of the run's workflows in Temporal. */

import { type Client, isGrpcServiceError } from '@temporalio/client';
import { keys } from '../protocol/record-keys.ts';
import type { Store } from '../store/store.ts';
import type { Role } from '../workers/settings.ts';
import type {
  AgentRunActivities,
  GpuActivities,
  InitActivities,
  RewardActivities,
  ShardActivities,
} from '../protocol/activities.ts';

type Name = keyof (InitActivities & GpuActivities & ShardActivities & AgentRunActivities & RewardActivities);

const ROLE_OF: Readonly<Record<Name, Role>> = {
  prepare: 'init',
  restoreSandbox: 'init',
  openEngine: 'gpu',
  checkEndpoint: 'gpu',
  generate: 'gpu',
  update: 'gpu',
  planUpdate: 'gpu',
  forwardBackward: 'gpu',
  optimStep: 'gpu',
  agentRun: 'agent-run',
  collect: 'agent-run',
  gradeInPlace: 'agent-run',
  releaseSandbox: 'agent-run',
  holdSandbox: 'agent-run',
  runProgram: 'agent-run',
  recordReports: 'agent-run',
  computeReward: 'reward',
};

/** `PENDING_ACTIVITY_STATE_SCHEDULED` of temporal/api/enums/v1/workflow.proto: no worker has taken it. */
const SCHEDULED = 1;
/** A gRPC status code. */
const NOT_FOUND = 5;

export interface Pending {
  readonly activityType?: { readonly name?: string | null } | null;
  readonly state?: number | null;
  /** When it is due; in the future between two attempts. */
  readonly scheduledTime?: { readonly seconds?: unknown } | null;
}

/** The number of activities of this role that a worker could start at `now` (milliseconds since the epoch). */
export function due(pending: readonly Pending[], role: Role, now: number): number {
  return pending.filter(({ activityType, state, scheduledTime }) => {
    const own = (ROLE_OF as Readonly<Record<string, Role>>)[activityType?.name ?? ''] === role;
    return own && state === SCHEDULED && Number(scheduledTime?.seconds ?? 0) * 1000 <= now;
  }).length;
}

async function pendingOf(client: Client, workflowId: string): Promise<readonly Pending[]> {
  const asked = { namespace: client.options.namespace, execution: { workflowId } };
  try {
    return (await client.workflowService.describeWorkflowExecution(asked)).pendingActivities ?? [];
  } catch (error) {
    // Dispatched, but its workflow has not started yet.
    if (isGrpcServiceError(error) && error.code === NOT_FOUND) return [];
    throw error;
  }
}

/** Rollouts that were dispatched and have not ended. */
async function openRollouts(run: string, store: Store): Promise<string[]> {
  const dispatched = (await store.events(run)).flatMap(({ event, rollout }) =>
    event === 'dispatched' ? [rollout] : [],
  );
  const outcomes = await Promise.all(dispatched.map((rollout) => store.get(keys.outcome(rollout))));
  return dispatched.filter((_, i) => outcomes[i] === undefined);
}

/** Checks the run and each of its rollouts. Errors: those of a server that does not answer. */
export async function workWaits(client: Client, store: Store, run: string, role: Role): Promise<boolean> {
  for (const id of [`train/${run}`, ...(await openRollouts(run, store))]) {
    if (due(await pendingOf(client, id), role, Date.now()) > 0) return true;
  }
  return false;
}
