/** The activities of every queue, as who calls them and who serves them see them: names, inputs and results. */

import type {
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
  Verdict,
} from './stages.ts';
import type { AdmissionState } from './admission.ts';
import type { BatchInput } from './batch.ts';
import type { CellHeadline, OpenedSweep, PlannedChunk, SweepCell } from './eval.ts';
import type { PolicyRef } from './policy.ts';
import type { RolloutResult } from './rollout.ts';
import type { ConfigChange, RunConfig } from './run-config.ts';
import type { EvaluationRecord, StepRecord } from './step-record.ts';
import type { RoundInput, ShardInput, UpdateInput, UpdateOutcome, UpdateRounds } from './update.ts';

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
  /** Writes the manifest of a batch all of whose rollouts have ended: those of `tasks`. */
  recordBatch(
    input: Pick<BatchInput, 'run' | 'tasks' | 'samples' | 'firstSample'> & { readonly batch: string },
  ): Promise<void>;
  /** Writes down how the rollouts that were not graded ended. */
  recordFailures(input: { run: string; failures: readonly RolloutResult[] }): Promise<void>;
  /** Of batches, by workflow id: sampled at temperature 1, and greedily. */
  summariseEvaluation(input: { run: string; sampled: string; greedy: string | null }): Promise<EvaluationRecord>;
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
