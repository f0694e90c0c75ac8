/** How workflows call activities: on which queue, with which deadlines and retries. */

import { proxyActivities } from '@temporalio/workflow';
import type {
  AgentRunActivities,
  GpuActivities,
  InitActivities,
  OrchestratorActivities,
  RewardActivities,
  SweepActivities,
  TrainingActivities,
} from '../protocol/activities.ts';
import { type Backoff, FINAL_ERRORS, OUTAGE_SECONDS, RETRIES } from '../protocol/failure-policy.ts';
import { hostQueue, QUEUES, workerQueue } from '../protocol/queues.ts';
import type { TrainingPlacement } from '../protocol/run-config.ts';

/** A run's own failure: it is no rollout's class. */
const NEVER_RETRIED = [...FINAL_ERRORS, 'NoValidRollouts'];

/** Without a limit: how often an activity may fail, or lose its worker, its worker counts (`activities/tries.ts`). */
function retry({ firstMs, factor, longestMs }: Omit<Backoff, 'attempts'>, maximumAttempts = Number.POSITIVE_INFINITY) {
  return {
    maximumAttempts,
    initialInterval: firstMs,
    backoffCoefficient: factor,
    maximumInterval: longestMs,
    nonRetryableErrorTypes: NEVER_RETRIED,
  };
}

/** Nothing waits for a worker for longer than this. */
const OUTAGE = `${OUTAGE_SECONDS}s` as const;

const onInit = {
  taskQueue: QUEUES.init,
  // Waiting for room on the host is back-pressure, not failure: the heartbeat tells the two apart.
  startToCloseTimeout: '6h',
  scheduleToCloseTimeout: OUTAGE,
  heartbeatTimeout: '15s',
  retry: retry(RETRIES.init),
} as const;

const onGpu = {
  taskQueue: QUEUES.gpu,
  startToCloseTimeout: '2h',
  scheduleToCloseTimeout: OUTAGE,
  heartbeatTimeout: '15s',
  retry: retry(RETRIES.gpu),
} as const;

export const init = proxyActivities<InitActivities>(onInit);

/** A rollout's deadline is kept by the worker, which knows what a try has had of it. */
export const gpu = proxyActivities<Pick<GpuActivities, 'generate'>>(onGpu);

/** Who has a rollout's context in its cache takes its next turn at once, or somebody else computes it anew. */
const CACHE_WITHIN = '5s';

/** The worker that has the cache, tried once: whatever it fails with, any other can take its place. */
export function onWorker(worker: string): Pick<GpuActivities, 'generate'> {
  return proxyActivities<Pick<GpuActivities, 'generate'>>({
    ...onGpu,
    taskQueue: workerQueue(worker),
    scheduleToStartTimeout: CACHE_WITHIN,
    retry: retry(RETRIES.gpu, 1),
  });
}

/** A cancelled run waits for the update under way: it is whole or not at all, and says itself what it trained. */
export function training(placement: TrainingPlacement): TrainingActivities {
  const taskQueue = placement === 'disaggregated' ? QUEUES.gpuTrain : QUEUES.gpu;
  return proxyActivities<TrainingActivities>({ ...onGpu, taskQueue, cancellationType: 'WAIT_CANCELLATION_COMPLETED' });
}

const onEndpoints = { ...onGpu, taskQueue: QUEUES.endpoint } as const;

export const endpoints: Pick<GpuActivities, 'checkEndpoint'> = proxyActivities<Pick<GpuActivities, 'checkEndpoint'>>({
  ...onEndpoints,
  startToCloseTimeout: '10m',
  retry: retry(RETRIES.gpu, 3),
});

/** Sampling from a server that may be down for a while: its worker asks again for as long as the endpoint's settings say. */
export const onEndpoint = proxyActivities<Pick<GpuActivities, 'generate'>>({
  ...onEndpoints,
  retry: { ...retry(RETRIES.gpu), maximumInterval: '30s' as const },
});

export const reward = proxyActivities<RewardActivities>({
  taskQueue: QUEUES.reward,
  startToCloseTimeout: '15m',
  scheduleToCloseTimeout: OUTAGE,
  heartbeatTimeout: '15s',
  retry: retry(RETRIES.reward),
});

export const orchestrator = proxyActivities<OrchestratorActivities & SweepActivities>({
  taskQueue: QUEUES.orchestrator,
  startToCloseTimeout: '10m',
  heartbeatTimeout: '15s',
  // A full disk or a store that is down ends no run of weeks: it goes on when the cause is gone within a day.
  scheduleToCloseTimeout: '24h',
  retry: retry({ firstMs: 500, factor: 2, longestMs: 30_000 }),
});

/** A host that is gone for longer than a sandbox lives has lost it. */
const HOST_GONE = '35m';

/** Beside a message's calls, which take four of their limits at most: what is collected, and the store's patience, which is to end first. */
const BESIDE_CALLS_SECONDS = 600;

/** Activities that must run where the sandbox is. */
export function onHost(host: string, toolTimeoutSeconds: number) {
  return proxyActivities<Omit<AgentRunActivities, 'releaseSandbox'>>({
    taskQueue: hostQueue(host),
    scheduleToStartTimeout: HOST_GONE,
    scheduleToCloseTimeout: OUTAGE,
    startToCloseTimeout: `${toolTimeoutSeconds * 4 + BESIDE_CALLS_SECONDS}s`,
    heartbeatTimeout: '15s',
    retry: retry(RETRIES['agent-run']),
  });
}

/** A rollout does not wait for long to be rid of a sandbox: what is not released, its host's sweeper takes. */
export function releasing(host: string) {
  return proxyActivities<Pick<AgentRunActivities, 'releaseSandbox'>>({
    taskQueue: hostQueue(host),
    scheduleToStartTimeout: '2m',
    startToCloseTimeout: '2m',
    scheduleToCloseTimeout: '10m',
    heartbeatTimeout: '15s',
    retry: retry(RETRIES['agent-run'], RETRIES['agent-run'].attempts),
  });
}
