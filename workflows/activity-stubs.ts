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
import { hostQueue, kindQueue, QUEUES, workerQueue } from '../protocol/queues.ts';
import type { TrainingPlacement } from '../protocol/run-config.ts';

/** `NoValidRollouts` is a run's failure, not a class of rollout failures. */
const NEVER_RETRIED = [...FINAL_ERRORS, 'NoValidRollouts'];

/** No limit by default: workers count how often an activity fails or loses its worker (`activities/tries.ts`). */
function retry({ firstMs, factor, longestMs }: Omit<Backoff, 'attempts'>, maximumAttempts = Number.POSITIVE_INFINITY) {
  return {
    maximumAttempts,
    initialInterval: firstMs,
    backoffCoefficient: factor,
    maximumInterval: longestMs,
    nonRetryableErrorTypes: NEVER_RETRIED,
  };
}

/** The longest wait for a worker. */
const OUTAGE = `${OUTAGE_SECONDS}s` as const;

const onInit = {
  taskQueue: QUEUES.init,
  // Waiting for room on the host is back-pressure, not failure: the heartbeat distinguishes them.
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

/** Opens the engine of a queue for a run or an eval: whichever worker takes it decides. */
export function opening(queue: typeof QUEUES.gpu | typeof QUEUES.gpuTrain) {
  return proxyActivities<Pick<GpuActivities, 'openEngine'>>({ ...onGpu, taskQueue: queue, startToCloseTimeout: '10m' });
}

/** The worker enforces a rollout's deadline: it knows how much of it an attempt has used. */
export function sampling(kind: string | undefined): Pick<GpuActivities, 'generate'> {
  return proxyActivities<Pick<GpuActivities, 'generate'>>({ ...onGpu, taskQueue: kindQueue(QUEUES.gpu, kind) });
}

/**
 * The worker with a rollout's context in its cache must take the turn within this time, or another one computes it
 * anew.
 */
const CACHE_WITHIN = '5s';

/** The worker that has the cache, with one attempt: after a failure any other worker can sample the turn. */
export function onWorker(worker: string): Pick<GpuActivities, 'generate'> {
  return proxyActivities<Pick<GpuActivities, 'generate'>>({
    ...onGpu,
    taskQueue: workerQueue(worker),
    scheduleToStartTimeout: CACHE_WITHIN,
    retry: retry(RETRIES.gpu, 1),
  });
}

/**
 * A cancelled run waits for the running update: an update is complete or absent, and records itself what it trained.
 */
export function training(placement: TrainingPlacement, kind: string | undefined): TrainingActivities {
  const taskQueue = kindQueue(placement === 'disaggregated' ? QUEUES.gpuTrain : QUEUES.gpu, kind);
  return proxyActivities<TrainingActivities>({ ...onGpu, taskQueue, cancellationType: 'WAIT_CANCELLATION_COMPLETED' });
}

const onEndpoints = { ...onGpu, taskQueue: QUEUES.endpoint } as const;

export const endpoints: Pick<GpuActivities, 'checkEndpoint'> = proxyActivities<Pick<GpuActivities, 'checkEndpoint'>>({
  ...onEndpoints,
  startToCloseTimeout: '10m',
  retry: retry(RETRIES.gpu, 3),
});

/**
 * Sampling from a server that may be down for a while: the worker retries for as long as the endpoint's settings say.
 */
export const onEndpoint = proxyActivities<Pick<GpuActivities, 'generate'>>({
  ...onEndpoints,
  retry: { ...retry(RETRIES.gpu), maximumInterval: '30s' as const },
});

/** One execution of a grading whose task sets no limit. */
const GRADING_SECONDS = 900;
/** Time beside a grading with a limit of its own: its sandboxes are made, and its verdict is recorded. */
const BESIDE_GRADING_SECONDS = 60;

/** A retry attaches to the calls of an execution that was lost, and has all the time again. */
const graded = (seconds: number | undefined) =>
  ({
    startToCloseTimeout: `${seconds === undefined ? GRADING_SECONDS : seconds + BESIDE_GRADING_SECONDS}s`,
    scheduleToCloseTimeout: OUTAGE,
    heartbeatTimeout: '15s',
    retry: retry(RETRIES.reward),
  }) as const;

/** `gradeSeconds`: the task's own limit. */
export function reward(gradeSeconds: number | undefined): RewardActivities {
  return proxyActivities<RewardActivities>({ taskQueue: QUEUES.reward, ...graded(gradeSeconds) });
}

export const orchestrator = proxyActivities<OrchestratorActivities & SweepActivities>({
  taskQueue: QUEUES.orchestrator,
  startToCloseTimeout: '10m',
  heartbeatTimeout: '15s',
  // A full disk or an unavailable store does not end a run of weeks: the run continues if this is fixed within a day.
  scheduleToCloseTimeout: '24h',
  retry: retry({ firstMs: 500, factor: 2, longestMs: 30_000 }),
});

/** A host that is unreachable for longer than a sandbox lives has lost the sandbox. */
const HOST_GONE = '35m';

/**
 * Time beside a message's calls, which take at most four times a call's limit. It is for collecting, and for waits for
 * the store, which must end first.
 */
const BESIDE_CALLS_SECONDS = 600;

/** Turns of a task without a sandbox, and what a program has reported. */
export function onAnyHost(toolTimeoutSeconds: number) {
  return proxyActivities<Pick<AgentRunActivities, 'agentRun' | 'recordReports'>>({
    taskQueue: QUEUES.agentRun,
    scheduleToCloseTimeout: OUTAGE,
    startToCloseTimeout: `${toolTimeoutSeconds * 4 + BESIDE_CALLS_SECONDS}s`,
    heartbeatTimeout: '15s',
    retry: retry(RETRIES['agent-run']),
  });
}

/** Time beside a program: its sandbox is reached, and its end is recorded. */
const BESIDE_PROGRAM_SECONDS = 120;

/** Runs the program that is the agent, where its sandbox is. */
export function programOn(host: string, seconds: number) {
  return proxyActivities<Pick<AgentRunActivities, 'runProgram'>>({
    taskQueue: hostQueue(host),
    scheduleToStartTimeout: HOST_GONE,
    scheduleToCloseTimeout: OUTAGE,
    startToCloseTimeout: `${Math.ceil(seconds) + BESIDE_PROGRAM_SECONDS}s`,
    heartbeatTimeout: '15s',
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
    retry: retry(RETRIES['agent-run']),
  });
}

/** Grades where the sandbox is. */
export function gradingOn(host: string, gradeSeconds: number | undefined) {
  return proxyActivities<Pick<AgentRunActivities, 'gradeInPlace'>>({
    taskQueue: hostQueue(host),
    scheduleToStartTimeout: HOST_GONE,
    ...graded(gradeSeconds),
  });
}

/** Other activities that must run where the sandbox is. */
export function onHost(host: string, toolTimeoutSeconds: number) {
  return proxyActivities<Pick<AgentRunActivities, 'agentRun' | 'collect' | 'holdSandbox'>>({
    taskQueue: hostQueue(host),
    scheduleToStartTimeout: HOST_GONE,
    scheduleToCloseTimeout: OUTAGE,
    startToCloseTimeout: `${toolTimeoutSeconds * 4 + BESIDE_CALLS_SECONDS}s`,
    heartbeatTimeout: '15s',
    retry: retry(RETRIES['agent-run']),
  });
}

/** A rollout does not wait long for the release of a sandbox: its host's sweeper removes one that is not released. */
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
