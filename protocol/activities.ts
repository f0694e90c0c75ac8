/** The activities of every queue, for their callers and for the workers that run them: names, inputs and results. */

import type {
  AgentRunInput,
  AgentRunOutcome,
  Attempt,
  Card,
  CheckEndpointInput,
  CollectOutcome,
  GenerateInput,
  GenerateOutcome,
  PrepareInput,
  RestoreInput,
  RewardInput,
  SandboxRef,
  Verdict,
} from './stages.ts';
import type { AdmissionState } from './admission.ts';
import type { BatchInput } from './batch.ts';
import type { OpenedEngine, OpenEngineInput } from './engine.ts';
import type { CellHeadline, OpenedSweep, PlannedChunk, SweepCell } from './eval.ts';
import type { PolicyRef } from './policy.ts';
import type { RecordReportsInput, RunProgramInput, RunProgramOutcome } from './program.ts';
import type { RolloutResult } from './rollout.ts';
import type { ConfigChange, OpenedConfig } from './run-config.ts';
import type { EvaluationRecord, StepRecord } from './step-record.ts';
import type { RoundInput, ShardInput, UpdateInput, UpdateOutcome, UpdateRounds } from './update.ts';

export interface InitActivities {
  /** Starts the task, and makes its sandboxes if it has any. */
  prepare(input: PrepareInput): Promise<Card>;
  /** Makes fresh sandboxes in the state of the lost ones after the attempt's last recorded turn. */
  restoreSandbox(input: RestoreInput): Promise<Card>;
}

export interface GpuActivities {
  /** Agrees on what the rollouts of a run or an eval need of the engine, before the first of them. */
  openEngine(input: OpenEngineInput): Promise<OpenedEngine>;
  /** Refuses an endpoint if its key, account or settings are wrong. A server that is down is not refused. */
  checkEndpoint(input: CheckEndpointInput): Promise<void>;
  generate(input: GenerateInput): Promise<GenerateOutcome>;
  /** Makes an update, or finishes one whose shards and steps are done. Retries record it only once. */
  update(input: UpdateInput): Promise<UpdateOutcome>;
}

/** The parts of an update that several workers share. Any worker may run a part, and a part may be repeated. */
export interface ShardActivities {
  planUpdate(input: UpdateInput & { readonly shards: number }): Promise<UpdateRounds>;
  forwardBackward(input: ShardInput): Promise<void>;
  optimStep(input: RoundInput): Promise<void>;
}

export type TrainingActivities = Pick<GpuActivities, 'update'> & ShardActivities;

export interface AgentRunActivities {
  agentRun(input: AgentRunInput): Promise<AgentRunOutcome>;
  /** Grades in the agent's own sandbox, for tasks that ask for it. */
  gradeInPlace(input: RewardInput & SandboxRef): Promise<Verdict>;
  /** Copies the artifact to grade out of the sandbox, and releases the sandbox. */
  collect(input: Attempt & SandboxRef): Promise<CollectOutcome>;
  releaseSandbox(input: Attempt & SandboxRef): Promise<void>;
  /** Runs the program that is the agent, in the sandbox, to its end. A repeated call attaches to it. */
  runProgram(input: RunProgramInput): Promise<RunProgramOutcome>;
  /** Records turns and the end that a program has reported. What is recorded stays. */
  recordReports(input: RecordReportsInput): Promise<void>;
  /** Renews the sandbox of a paused rollout. */
  holdSandbox(input: Attempt & SandboxRef): Promise<void>;
}

export interface RewardActivities {
  computeReward(input: RewardInput): Promise<Verdict>;
}

/** A run and its folder. */
export interface RunFolder {
  readonly run: string;
  readonly runDir: string;
}

export interface OpenedRun {
  readonly config: OpenedConfig;
  readonly runDir: string;
  readonly policy: PolicyRef;
  readonly changes?: readonly ConfigChange[];
  /** Milliseconds in which the run was not paused, as far as it is recorded. Absent: 0. */
  readonly workedMs?: number;
  /** The last recorded step. Absent: none. */
  readonly recorded?: number;
  /** If rollouts and updates overlap: the state from which a run that starts from its records continues. */
  readonly resume?: {
    readonly step: number;
    readonly policy: PolicyRef;
    readonly overlap: AdmissionState;
    readonly owed?: readonly number[];
  };
}

/** The result of a step, to be recorded. */
export interface StepToRecord extends RunFolder {
  readonly record: StepRecord;
  readonly policy: PolicyRef;
  readonly sha256: string | null;
  readonly keep: boolean;
  /** Milliseconds in which the run was not paused until now. Absent: not known. */
  readonly workedMs?: number;
  /** If rollouts and updates overlap: the units that have started and are not trained on yet. */
  readonly overlap?: AdmissionState;
}

export interface OrchestratorActivities {
  /**
   * Fills in defaults and refuses a wrong configuration. Makes the folder of `run` (the name in the workflow id), with
   * `config.yaml`. Continues a run that another `execution` (Temporal's run id) ended as failed or cancelled.
   */
  openRun(config: unknown, run: string, execution?: string): Promise<OpenedRun>;
  /** Records the settings that were changed on a live run. `key` orders the changes and makes the record unique. */
  recordChanges(input: RunFolder & { key: string; changes: readonly ConfigChange[] }): Promise<void>;
  /** `batch` is the batch's workflow id. */
  recordDispatched(
    input: Pick<BatchInput, 'run' | 'name' | 'tasks' | 'samples' | 'firstSample'> & { readonly batch: string },
  ): Promise<void>;
  /** Writes the manifest of a batch when all rollouts of `tasks` have ended. `batch` is the batch's workflow id. */
  recordBatch(
    input: Pick<BatchInput, 'run' | 'tasks' | 'catalog' | 'samples' | 'firstSample'> & { readonly batch: string },
  ): Promise<void>;
  /** Records how the rollouts that were not graded ended. */
  recordFailures(
    input: Pick<BatchInput, 'run' | 'catalog'> & { readonly failures: readonly RolloutResult[] },
  ): Promise<void>;
  /** Summarises two batches, given by workflow id: one sampled at temperature 1, one greedy. */
  summariseEvaluation(input: { run: string; sampled: string; greedy: string | null }): Promise<EvaluationRecord>;
  recordStep(input: StepToRecord): Promise<void>;
  recordEvaluation(input: RunFolder & { step: number; evaluation: EvaluationRecord }): Promise<void>;
  /**
   * `untrained`: workflow ids of batches that no step waits for; their rollouts without a recorded end are dropped.
   * `execution`: Temporal's run id.
   */
  closeRun(
    input: RunFolder & {
      status: 'completed' | 'failed' | 'cancelled';
      message?: string;
      untrained?: readonly string[];
      execution?: string;
      workedMs?: number;
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
   * Fills in defaults, refuses a wrong configuration, and resolves the policies of `eval` (the workflow id's name).
   * `execution` is the id of the workflow's first execution: each such id is one round.
   */
  openSweep(input: { given: unknown; eval: string; execution: string }): Promise<OpenedSweep>;
  /** Returns chunk `index` of the rollouts that the cell still needs. */
  nextChunk(input: SweepRound & { cell: SweepCell; index: number }): Promise<PlannedChunk>;
  summariseCell(input: SweepRound & { cell: SweepCell }): Promise<CellHeadline>;
  closeSweep(
    input: SweepRound & { status: 'completed' | 'failed' | 'cancelled'; message?: string; workedMs?: number },
  ): Promise<void>;
  /** As `recordChanges`, for the budgets of an eval. */
  recordBudgets(input: SweepRound & { key: string; changes: readonly ConfigChange[] }): Promise<void>;
}
