/** The activities as workflows see them: types, queues, deadlines and retry limits. No code of theirs is imported. */

import { proxyActivities } from '@temporalio/workflow';
import type {
  Verdict,
  AgentRunInput,
  AgentRunOutcome,
  Attempt,
  CheckEndpointInput,
  CollectOutcome,
  GenerateInput,
  GenerateOutcome,
  RestoreInput,
  RewardInput,
  SandboxRef,
} from '../protocol/stages.ts';
import type { BatchInput } from '../protocol/batch.ts';
import type { PolicyRef } from '../protocol/policy.ts';
import type { RolloutResult } from '../protocol/rollout.ts';
import type { ConfigChange, RunConfig, TrainingPlacement } from '../protocol/run-config.ts';
import type { EvaluationRecord, StepRecord } from '../protocol/step-record.ts';
import type { RoundInput, ShardInput, UpdateInput, UpdateOutcome, UpdateRounds } from '../protocol/update.ts';
import type { CellHeadline, OpenedSweep, PlannedChunk, SweepCell } from '../protocol/eval.ts';
import { type Backoff, FINAL_ERRORS, OUTAGE_SECONDS, RETRIES } from '../protocol/failure-policy.ts';
import { hostQueue, QUEUES, workerQueue } from '../protocol/queues.ts';
import type { AdmissionState } from '../protocol/admission.ts';

export interface InitActivities {
  prepareSandbox(input: Attempt): Promise<SandboxRef>;
  /** A fresh sandbox in the state that the lost one was in after the attempt's last recorded turn. */
  restoreSandbox(input: RestoreInput): Promise<SandboxRef>;
}

export interface GpuActivities {
  /** Refuses an endpoint that its key, its account or its settings are wrong for; a server that is down is not refused. */
  checkEndpoint(input: CheckEndpointInput): Promise<void>;
  generate(input: GenerateInput): Promise<GenerateOutcome>;
  /** Makes an update, or finishes one whose shards and steps are done: on record once, whatever is retried. */
  update(input: UpdateInput): Promise<UpdateOutcome>;
}

/** The parts of an update that several workers share; each may be made anywhere, and again. */
export interface ShardActivities {
  planUpdate(input: UpdateInput & { readonly shards: number }): Promise<UpdateRounds>;
  forwardBackward(input: ShardInput): Promise<void>;
  optimStep(input: RoundInput): Promise<void>;
}

export type TrainingActivities = Pick<GpuActivities, 'update'> & ShardActivities;

export interface AgentRunActivities {
  agentRun(input: AgentRunInput): Promise<AgentRunOutcome>;
  /** Takes what is to be graded out of the sandbox and releases it. */
  collect(input: Attempt & SandboxRef): Promise<CollectOutcome>;
  releaseSandbox(input: Attempt & SandboxRef): Promise<void>;
  /** Renews the sandbox of a rollout that is paused. */
  holdSandbox(input: Attempt & SandboxRef): Promise<void>;
}

export interface RewardActivities {
  computeReward(input: RewardInput): Promise<Verdict>;
}

/** A run and the folder that keeps it. */
export interface RunFolder {
  readonly run: string;
  readonly runDir: string;
}

export interface OpenedRun {
  readonly config: RunConfig;
  readonly runDir: string;
  readonly policy: PolicyRef;
  readonly changes?: readonly ConfigChange[];
  /** The last step on record; absent: there is none. */
  readonly recorded?: number;
  /** Where rollouts and updates overlap: what a run that starts from its records goes on from. */
  readonly resume?: {
    readonly step: number;
    readonly policy: PolicyRef;
    readonly overlap: AdmissionState;
    readonly owed?: readonly number[];
  };
}

/** What a step leaves behind. */
export interface StepToRecord extends RunFolder {
  readonly record: StepRecord;
  readonly policy: PolicyRef;
  readonly sha256: string;
  readonly keep: boolean;
  /** Where rollouts and updates overlap: what has begun and is not trained on. */
  readonly overlap?: AdmissionState;
}

export interface OrchestratorActivities {
  /**
   * Fills in defaults and refuses what is wrong; makes the folder of `run`, the workflow id's own, with `config.yaml`. What
   * another execution than this one (Temporal's run id) ended as failed or cancelled goes on.
   */
  openRun(config: unknown, run: string, execution?: string): Promise<OpenedRun>;
  /** Writes down what was changed on a live run; `key` orders the changes of one moment and names them once. */
  recordChanges(input: RunFolder & { key: string; changes: readonly ConfigChange[] }): Promise<void>;
  /** `batch` is the batch's workflow id. */
  recordDispatched(
    input: Pick<BatchInput, 'run' | 'name' | 'tasks' | 'samples' | 'firstSample'> & { readonly batch: string },
  ): Promise<void>;
  /** Writes down how the rollouts that were not graded ended. */
  recordFailures(input: { run: string; failures: readonly RolloutResult[] }): Promise<void>;
  summariseEvaluation(input: {
    run: string;
    tasks: readonly string[];
    sampled: string;
    greedy: string | null;
  }): Promise<EvaluationRecord>;
  recordStep(input: StepToRecord): Promise<void>;
  recordEvaluation(input: RunFolder & { step: number; evaluation: EvaluationRecord }): Promise<void>;
  /** `untrained`: batches by workflow id whose rollouts no step waits for: those without an end are dropped. `execution`: Temporal's run id. */
  closeRun(
    input: RunFolder & {
      status: 'completed' | 'failed' | 'cancelled';
      message?: string;
      untrained?: readonly string[];
      execution?: string;
    },
  ): Promise<void>;
}

/** One start of an eval: `round` counts them. */
export interface SweepRound {
  readonly eval: string;
  readonly round: number;
}

/** Bookkeeping of evals, on the `orchestrator` queue. */
export interface SweepActivities {
  /**
   * Fills in defaults, refuses what is wrong, and resolves the policies of `eval`, the workflow id's own name.
   * `execution` is the workflow's first: another one is another round.
   */
  openSweep(input: { given: unknown; eval: string; execution: string }): Promise<OpenedSweep>;
  /** The cell's part `index` of what it still has to roll out. */
  nextChunk(input: SweepRound & { cell: SweepCell; index: number }): Promise<PlannedChunk>;
  summariseCell(input: SweepRound & { cell: SweepCell }): Promise<CellHeadline>;
  closeSweep(input: SweepRound & { status: 'completed' | 'failed' | 'cancelled'; message?: string }): Promise<void>;
}

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
  const taskQueue = placement === 'apart' ? QUEUES.gpuTrain : QUEUES.gpu;
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
