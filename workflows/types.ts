/** What crosses Temporal: small, JSON, by reference. Nothing here carries a transcript. */

import type { FailureClass, FinishReason } from '../agents/finish-reason.ts';
import type { ObjectRef } from '../store/store.ts';
import type { Verdict } from '../tasks/task.ts';
import type { Endpoint } from '../trainer/backends/endpoint.ts';
import type { NewLora, SamplingParameters, UpdateMetrics, UpdateSettings } from '../trainer/engine.ts';
import type { RateSchedule } from '../trainer/learning-rate.ts';
import type { LoraSettings } from '../trainer/lora/lora-settings.ts';

export interface PolicyRef {
  /** Directory in Hugging Face layout. */
  readonly dir: string;
  readonly version: number;
  /** Of the files, where it is known: other files under the same name are another policy. */
  readonly digest?: string;
}

/** A policy behind somebody else's server: it is sampled from, and takes no updates. */
export interface EndpointPolicy {
  readonly endpoint: Endpoint;
  readonly version: number;
}

/** An endpoint as it is given: what is absent takes its default. */
export type GivenEndpoint = Pick<Endpoint, 'baseUrl' | 'model'> & Partial<Endpoint>;
export type GivenEndpointPolicy = { readonly endpoint: GivenEndpoint; readonly version?: number };

/** What a rollout can be made with; only a `PolicyRef` can be trained. */
export type RolloutPolicy = PolicyRef | EndpointPolicy;

export interface AgentSettings {
  readonly maxTurns: number;
  /** Prompt, observations and sampled tokens together. */
  readonly maxContextTokens: number;
  /** Seconds that one tool call may take. */
  readonly toolTimeoutSeconds: number;
}

/** One rollout; what is absent takes its default, so that any Temporal client can start one with `task` and `policy`. */
export interface RolloutInput {
  readonly task: string;
  /** Of an endpoint, `baseUrl` and `model` suffice. */
  readonly policy: PolicyRef | GivenEndpointPolicy;
  readonly agent?: Partial<AgentSettings>;
  readonly sampling?: Partial<SamplingParameters>;
  /** `run` and `step` name what it belongs to; a rollout of its own belongs to the run of its own id. */
  readonly run?: string;
  readonly step?: number;
  readonly sample?: number;
  readonly seed?: number;
  /** Stages that begin only when the parent sends `proceed`; where there is one, the parent hears of every stage's end. */
  readonly gates?: readonly GatedStage[];
}

export type Stage = 'init' | 'agent-run' | 'reward';
export type GatedStage = Exclude<Stage, 'init'>;

export interface RolloutResult {
  readonly rollout: string;
  readonly task: string;
  readonly status: 'graded' | 'failed';
  readonly attempt: number;
  readonly turns: number;
  readonly reward?: number;
  readonly passed?: boolean;
  readonly finish?: FinishReason;
  readonly failure?: FailureClass;
  readonly message?: string;
}

/** Names one attempt of one rollout: the prefix of every key that it records under. */
export interface Attempt {
  readonly run: string;
  readonly rollout: string;
  readonly attempt: number;
  readonly task: string;
}

export interface GenerateInput extends Attempt {
  readonly turn: number;
  readonly policy: RolloutPolicy;
  readonly sampling: SamplingParameters;
  readonly maxContextTokens: number;
  /** The noise of this turn: a function of seed, step, task, sample and turn. */
  readonly noiseKey: string;
}

export interface GenerateOutcome {
  readonly kind: 'calls' | 'hint' | 'finish' | 'context-full' | 'response-cut' | 'refused';
  /** Tool calls to run in the sandbox. */
  readonly calls: number;
  readonly contextTokens: number;
  readonly sampledTokens: number;
  /** The turn in a line, for the workflow's details. */
  readonly line: string;
}

export interface SandboxRef {
  readonly sandbox: string;
  readonly host: string;
  /** For so long it lives without being used or renewed. */
  readonly ttlSeconds?: number;
}

export interface AgentRunInput extends Attempt, SandboxRef {
  readonly turn: number;
  readonly toolTimeoutSeconds: number;
}

export interface AgentRunOutcome {
  readonly line: string;
}

export interface CollectOutcome {
  readonly artifact: ObjectRef;
  readonly bytes: number;
}

export interface RewardInput extends Attempt {
  readonly artifact: ObjectRef;
  readonly finish: FinishReason;
  readonly turns: number;
}

export interface BatchInput {
  readonly run: string;
  /** `step-3`, `eval-0-sampled`: the last part of the batch's workflow id. */
  readonly name: string;
  readonly step: number;
  readonly tasks: readonly string[];
  readonly samples: number;
  /** Number of the first sample of each task; absent: 0. */
  readonly firstSample?: number;
  /** Dynamic sampling: groups that must vary; then `tasks` are candidates, begun in their order until so many do. */
  readonly wanted?: number;
  readonly policy: RolloutPolicy;
  readonly agent: AgentSettings;
  readonly sampling: SamplingParameters;
  readonly seed: number;
  readonly dispatcher: DispatcherSettings;
  /** Which queued work goes first where batches share workers; absent: `train`. */
  readonly priority?: BatchPriority;
}

/** `eval` yields to `train`. A run's own evaluations count as `train`: its next step waits for them. */
export type BatchPriority = 'train' | 'eval';

/** How a batch lets its rollouts in; what is absent takes its default. */
export interface DispatcherSettings {
  readonly type: 'batch' | 'bounded' | 'pipeline';
  /** `bounded`: rollouts at once. `pipeline`: rollouts in agent-run at once. */
  readonly maxParallelAgents?: number;
  /** `pipeline`: rollouts in reward at once; absent: as many as in agent-run. */
  readonly maxEvalParallelAgents?: number;
}

export interface BatchResult {
  /** Of the batch's tasks, the first so many were rolled out: all, but with dynamic sampling. */
  readonly groups: number;
  readonly rollouts: number;
  readonly graded: number;
  readonly passed: number;
  readonly rewardSum: number;
  readonly failures: Readonly<Partial<Record<FailureClass, number>>>;
  readonly seconds: number;
}

/** The highest learning rate is reached after `warmup` steps, and falls by `schedule` over the run's steps. */
export interface AlgorithmSettings extends UpdateSettings, Required<RateSchedule> {
  readonly advantage: 'grpo';
  readonly normaliseByStd: boolean;
}

export interface EvaluationSettings {
  /** Held-out tasks, each sampled once at temperature 1 and once greedily. */
  readonly tasks: number;
  readonly greedy: boolean;
  /** Steps between evaluations; 0: before and after only. */
  readonly every: number;
}

export interface BatchSettings {
  /** Groups of a step. */
  readonly tasks: number;
  /** Rollouts of a group. */
  readonly samples: number;
  readonly dynamicSampling: {
    /** `filter`: a step goes on drawing groups until `tasks` of them vary in reward, and trains on those. */
    readonly type: 'none' | 'filter';
    /** A step draws at most so many times `tasks` groups, and trains on those that vary. */
    readonly maxSampleBatches: number;
  };
}

/** The resolved configuration of a run: the argument of the `train` workflow, and `config.yaml` of its folder. */
export interface RunConfig {
  readonly run: string;
  /** Absolute directory that the run's folder is made in. */
  readonly dir: string;
  readonly seed: number;
  readonly steps: number;
  /** With `lora` an adapter beside the base is trained, and the base stays as it is. */
  readonly policy: { readonly base: string; readonly lora?: LoraSettings };
  readonly task: { readonly name: string; readonly train: number };
  readonly batch: BatchSettings;
  readonly agent: AgentSettings;
  readonly sampling: SamplingParameters;
  readonly dispatcher: DispatcherSettings;
  readonly algorithm: AlgorithmSettings;
  readonly evaluation: EvaluationSettings;
  /** Steps between checkpoints that are kept; the last is always kept. */
  readonly checkpoint: { readonly every: number };
}

/** One setting that was changed on a live run: in force from then on, after `step` steps. */
export interface ConfigChange {
  readonly at: string;
  readonly step: number;
  /** Dotted, as in the configuration. */
  readonly field: string;
  /** `null` where it was not set. */
  readonly from: number | null;
  readonly to: number;
}

export interface UpdateInput {
  readonly run: string;
  readonly runDir: string;
  readonly step: number;
  /** Steps of the run, as far as is known now: what the learning rate's schedule is over. */
  readonly steps: number;
  readonly batch: string;
  readonly tasks: readonly string[];
  readonly samples: number;
  /** Groups to train on: the first so many of `tasks` that vary; absent: all that do. */
  readonly wanted?: number;
  readonly policy: PolicyRef;
  readonly algorithm: AlgorithmSettings;
  readonly lora?: NewLora;
}

export interface StepRecord {
  readonly step: number;
  readonly policyVersion: number;
  readonly rewardMean: number;
  readonly passRate: number;
  readonly groups: number;
  readonly valid: number;
  /** Rollouts left out for an infrastructural reason, by reason. */
  readonly masked: Readonly<Record<string, number>>;
  /** Rollouts of groups that teach nothing, by reason. */
  readonly dropped: Readonly<Record<string, number>>;
  readonly sampledTokens: number;
  readonly trainedTokens: number;
  /** Times a chat template rewrote the past, so that one rollout became several training sequences. */
  readonly prefixBreaks: number;
  readonly seconds: { readonly rollout: number; readonly train: number; readonly total: number };
  readonly learningRate: number;
  readonly loss: number;
  readonly kl: number;
  readonly entropy: number;
  readonly gradNorm: number;
  readonly logprobDrift: UpdateMetrics['logprobDrift'];
}

export interface UpdateOutcome {
  readonly policy: PolicyRef;
  readonly sha256: string;
  /** All of the step's record but the times, which the workflow knows. */
  readonly record: Omit<StepRecord, 'seconds'>;
}

export interface EvaluationRecord {
  /** Of all sampled rollouts: what failed has not passed. */
  readonly passRate: number;
  /** Of the sampled rollouts that were graded; `null` where none was. */
  readonly gradedPassRate?: number | null;
  /** Sampled rollouts that failed for an infrastructural reason, by reason. */
  readonly failed?: Readonly<Record<string, number>>;
  readonly greedyPassRate: number | null;
  readonly rollouts: number;
  readonly byFamily: Readonly<Record<string, { readonly rollouts: number; readonly passRate: number }>>;
}

/** Where a paused run stops: its rollouts before their next turn, or the run before its next step or evaluation. */
export type PausePoint = 'turn' | 'step';

/** The answer to the `status` query of `train`. */
export interface TrainStatus {
  readonly run: string;
  /** `paused` once the run stands still: at a turn at once, at a step when what is under way has ended. */
  readonly phase: 'starting' | 'evaluating' | 'rollouts' | 'training' | 'paused' | 'done';
  readonly step: number;
  readonly steps: number;
  readonly policyVersion: number;
  readonly batch: { readonly name: string; readonly total: number } | null;
  /** A pause that was asked for and not undone; absent: none. */
  readonly pauseAt?: PausePoint;
  /** The last steps, oldest first; at most 20. */
  readonly recent: readonly StepRecord[];
}

export type { Verdict };
