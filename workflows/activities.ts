/** The activities as workflows see them: types, queues, deadlines and retry limits. No code of theirs is imported. */

import { proxyActivities } from '@temporalio/workflow';
import type {
  AgentRunInput,
  AgentRunOutcome,
  Attempt,
  BatchInput,
  CheckEndpointInput,
  CollectOutcome,
  ConfigChange,
  EvaluationRecord,
  GenerateInput,
  GenerateOutcome,
  PolicyRef,
  RewardInput,
  RolloutResult,
  RunConfig,
  SandboxRef,
  StepRecord,
  UpdateInput,
  UpdateOutcome,
  Verdict,
} from './types.ts';
import type { CellHeadline, OpenedSweep, PlannedChunk, SweepCell } from './eval-types.ts';
import type { Endpoint } from '../trainer/backends/endpoint.ts';
import { hostQueue, QUEUES } from './queues.ts';

export interface InitActivities {
  prepareSandbox(input: Attempt): Promise<SandboxRef>;
}

export interface GpuActivities {
  /** Refuses an endpoint that its key, its account or its settings are wrong for; a server that is down is not refused. */
  checkEndpoint(input: CheckEndpointInput): Promise<void>;
  generate(input: GenerateInput): Promise<GenerateOutcome>;
  update(input: UpdateInput): Promise<UpdateOutcome>;
}

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

export interface OrchestratorActivities {
  /** Fills in defaults and refuses what is wrong; makes the folder of `run`, the workflow id's own, with `config.yaml`. */
  openRun(
    config: unknown,
    run: string,
  ): Promise<{ config: RunConfig; runDir: string; policy: PolicyRef; changes?: readonly ConfigChange[] }>;
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
  recordStep(input: RunFolder & { record: StepRecord; policy: PolicyRef; sha256: string; keep: boolean }): Promise<void>;
  recordEvaluation(input: RunFolder & { step: number; evaluation: EvaluationRecord }): Promise<void>;
  closeRun(input: RunFolder & { status: 'completed' | 'failed' | 'cancelled'; message?: string }): Promise<void>;
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

/** Failures that no retry of the same call can cure: the workflow decides what follows. */
const FINAL = ['UserInputError', 'SandboxLost', 'NoValidRollouts'];

const retry = (maximumAttempts: number) => ({
  maximumAttempts,
  initialInterval: '500ms' as const,
  backoffCoefficient: 2,
  maximumInterval: '10s' as const,
  nonRetryableErrorTypes: FINAL,
});

export const init = proxyActivities<InitActivities>({
  taskQueue: QUEUES.init,
  // Waiting for room on the host is back-pressure, not failure: the heartbeat tells the two apart.
  startToCloseTimeout: '6h',
  heartbeatTimeout: '15s',
  retry: retry(20),
});

const onGpu = {
  taskQueue: QUEUES.gpu,
  startToCloseTimeout: '2h',
  heartbeatTimeout: '15s',
  retry: retry(8),
} as const;

const { generate } = proxyActivities<Pick<GpuActivities, 'generate'>>(onGpu);
// A cancelled run waits for the update under way: it is whole or not at all, and says itself what it trained.
const { update } = proxyActivities<Pick<GpuActivities, 'update'>>({ ...onGpu, cancellationType: 'WAIT_CANCELLATION_COMPLETED' });
const { checkEndpoint } = proxyActivities<Pick<GpuActivities, 'checkEndpoint'>>({ ...onGpu, startToCloseTimeout: '5m', retry: retry(3) });
export const gpu: GpuActivities = { checkEndpoint, generate, update };

/** Sampling from a server that may be down for a while: asked again for as long as the endpoint's settings say. */
export function onEndpoint({ patienceSeconds }: Endpoint): Pick<GpuActivities, 'generate'> {
  return proxyActivities<Pick<GpuActivities, 'generate'>>({
    ...onGpu,
    scheduleToCloseTimeout: `${patienceSeconds}s`,
    retry: { ...retry(Number.POSITIVE_INFINITY), maximumInterval: '30s' as const },
  });
}

export const reward = proxyActivities<RewardActivities>({
  taskQueue: QUEUES.reward,
  startToCloseTimeout: '15m',
  heartbeatTimeout: '15s',
  retry: retry(5),
});

export const orchestrator = proxyActivities<OrchestratorActivities & SweepActivities>({
  taskQueue: QUEUES.orchestrator,
  startToCloseTimeout: '10m',
  heartbeatTimeout: '15s',
  // A full disk or a store that is down ends no run of weeks: it goes on when the cause is gone within a day.
  scheduleToCloseTimeout: '24h',
  retry: { ...retry(Number.POSITIVE_INFINITY), maximumInterval: '30s' as const },
});

/** Activities that must run where the sandbox is. A host that is gone for longer than a sandbox lives has lost it. */
export function onHost(host: string, toolTimeoutSeconds: number) {
  return proxyActivities<AgentRunActivities>({
    taskQueue: hostQueue(host),
    scheduleToStartTimeout: '35m',
    startToCloseTimeout: `${toolTimeoutSeconds * 4 + 120}s`,
    heartbeatTimeout: '15s',
    retry: retry(6),
  });
}
