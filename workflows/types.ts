/** What crosses Temporal: small, JSON, by reference. Nothing here carries a transcript. */

import type { FailureClass, FinishReason } from '../agents/finish-reason.ts';
import type { ObjectRef } from '../store/store.ts';
import type { Verdict } from '../tasks/task.ts';
import type { Endpoint } from '../trainer/backends/endpoint.ts';
import type { CriticSettings } from '../trainer/critic/settings.ts';
import type { KlSettings, NewLora, SamplingParameters, UpdateMetrics, UpdateSettings } from '../trainer/engine.ts';
import type { RateSchedule } from '../trainer/learning-rate.ts';
import type { LoraSettings } from '../trainer/lora/lora-settings.ts';
import type { StragglerSettings } from './batch/stragglers.ts';
import type { BreakerSettings, Trip } from './circuit-breaker.ts';

export interface PolicyRef {
  /** Directory in Hugging Face layout. */
  readonly dir: string;
  readonly version: number;
  /** Of the files, where it is known: other files under the same name are another policy. */
  readonly digest?: string;
  /** A run that trains meanwhile: each turn is sampled by its newest version, this one or a later one. */
  readonly newestOf?: string;
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
  /** Seconds that a rollout may spend on its turns, from its first sandbox on; pauses and gates do not count. Absent: a week. */
  readonly deadlineSeconds?: number;
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
  /** The parent hears of the end by the signal `rolloutEnded` too, since it may be in another history by then. */
  readonly reportsEnd?: boolean;
}

export type Stage = 'init' | 'agent-run' | 'reward';
export type GatedStage = Exclude<Stage, 'init'>;

export interface RolloutResult {
  readonly rollout: string;
  readonly task: string;
  readonly status: 'graded' | 'failed';
  readonly attempt: number;
  readonly turns: number;
  /** Sandboxes of this attempt that were lost, and whose place another one took in the same state. */
  readonly restores?: number;
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

export interface CheckEndpointInput {
  /** What the endpoint is found to offer is on record for this run. */
  readonly run: string;
  readonly endpoint: Endpoint;
  /** Where the endpoint stands in what was given: `policy.endpoint`. */
  readonly field: string;
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
  /** Who has the context in its cache; absent where there is one worker, or nobody has. */
  readonly worker?: string;
}

export interface SandboxRef {
  readonly sandbox: string;
  readonly host: string;
  /** For so long it lives without being used or renewed. */
  readonly ttlSeconds?: number;
}

export interface RestoreInput extends Attempt {
  /** How many sandboxes of this attempt were lost. */
  readonly restore: number;
  readonly toolTimeoutSeconds: number;
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
  /** Dynamic sampling: then `tasks` are candidates, and so many at a time begin until enough of these vary. */
  readonly replace?: ReplaceSettings;
  readonly policy: RolloutPolicy;
  readonly agent: AgentSettings;
  readonly sampling: SamplingParameters;
  readonly seed: number;
  readonly dispatcher: DispatcherSettings;
  /** When to tell the parent that rollouts fail alike; absent: never. */
  readonly breaker?: BreakerSettings;
  /** Which queued work goes first where batches share workers; absent: `train`. */
  readonly priority?: BatchPriority;
  /** Absent: every rollout is waited for. */
  readonly stragglers?: StragglerSettings;
}

/** Groups that do not vary are replaced by copies of some that do, where enough do. */
export interface ReplaceSettings {
  /** That are drawn at a time, and trained on. */
  readonly groups: number;
  /** More than this share of them must vary, or they are all drawn again. */
  readonly minReplaceRatio: number;
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
  readonly advantage: string;
  /** Groups whose rewards are all alike are left out; absent: they are. */
  readonly zeroVarianceFilter?: boolean;
  /** What did not finish by itself is in its group's baseline alone. */
  readonly overlongFilter?: boolean;
  readonly kl?: KlSettings & Partial<KlControllerSettings>;
  /** `base`: a policy's or a critic's directory that it begins as; absent: the run's base policy. */
  readonly critic?: CriticSettings & Required<RateSchedule> & { readonly base?: string };
}

/** How the weight of KL goes on from step to step. */
export interface KlControllerSettings {
  readonly controller: 'fixed' | 'adaptive';
  /** `adaptive`: nats a token. */
  readonly target: number;
  /** `adaptive`: sequences. */
  readonly horizon: number;
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
    /**
     * `filter`: a step goes on drawing groups until `tasks` of them vary in reward, and trains on those. `replace`: of
     * `tasks` groups those that do not vary are replaced by copies of some that do; where too few do, it draws others.
     */
    readonly type: 'none' | 'filter' | 'replace';
    /** A step draws at most so many times `tasks` groups, and trains on those that vary. */
    readonly maxSampleBatches: number;
    /** `replace`: more than this share must vary. */
    readonly minReplaceRatio?: number;
  };
  /** Of a step's rollouts; what is given up is masked. */
  readonly stragglers?: StragglerSettings;
}

/** How rollouts and updates take turns. */
export interface TrainingSettings {
  /**
   * `sync`: a step's rollouts, then its update. `one-step-off`: the next step's rollouts while an update runs. `async`:
   * groups begin whenever one ends, as far as the bound on staleness allows.
   */
  readonly mode: 'sync' | 'one-step-off' | 'async';
  /** `async`: updates between the policy that a group begins with and the one that is trained on it, at most. */
  readonly maxStalenessSteps?: number;
  /** What samples a rollout's later turns: the newest version at each, or the one that it began with. */
  readonly rolloutVersion?: 'newest' | 'begin';
  /** Rollouts with a token that is more updates old than this are masked; absent: none are. */
  readonly maskStalenessSteps?: number;
  /** Gradients of an optimizer step are made in so many parts, by whichever workers are free; absent: by one worker, whole. */
  readonly shards?: number;
  /** `apart`: updates wait for workers that train, on a queue of their own; absent: `colocated`, whoever samples trains. */
  readonly placement?: TrainingPlacement;
}

export type TrainingPlacement = 'colocated' | 'apart';

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
  /** Absent: `sync`. */
  readonly training?: TrainingSettings;
  readonly algorithm: AlgorithmSettings;
  readonly evaluation: EvaluationSettings;
  /** Steps between checkpoints that are kept; the last is always kept. */
  readonly checkpoint: { readonly every: number };
  /** When a run is paused because its rollouts fail alike; absent: the default. */
  readonly breaker?: BreakerSettings;
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

/** Rollouts of one batch, by its workflow id: those of its first tasks. */
export interface RolledOut {
  readonly batch: string;
  readonly tasks: readonly string[];
}

export interface UpdateInput extends RolledOut {
  readonly run: string;
  readonly runDir: string;
  readonly step: number;
  /** Steps of the run, as far as is known now: what the learning rate's schedule is over. */
  readonly steps: number;
  /** Where a step's groups come from several batches, those after the first. */
  readonly further?: readonly RolledOut[];
  /** Where rollouts and updates overlap: the units that these are, by number. */
  readonly units?: readonly number[];
  readonly samples: number;
  /** Groups of each batch to train on: the first so many of its tasks that vary; absent: all that do. */
  readonly wanted?: number;
  /** Of the groups that were drawn last, those that do not vary are replaced; those before them are left out. */
  readonly replace?: ReplaceSettings;
  /** A rollout with a token that is more versions old than this is masked; absent: none is. */
  readonly maskStaleness?: number;
  readonly policy: PolicyRef;
  readonly algorithm: AlgorithmSettings;
  readonly lora?: NewLora;
  /** Where no rollout was graded the policy goes on unchanged; absent: that is an error. */
  readonly mayBeUngraded?: boolean;
  /** More than one: `planUpdate`, `forwardBackward` and `optimStep` have made it before. */
  readonly shards?: number;
}

/** An update in shards, as it was laid down. */
export interface UpdateRounds {
  /** Folder of the update's own files. */
  readonly dir: string;
  /** Digest of the plan. */
  readonly plan: string;
  /** Shards of each optimizer step; empty where there is nothing to do before `update`. */
  readonly rounds: readonly number[];
}

/** One optimizer step of such an update. */
export interface RoundInput extends Pick<UpdateInput, 'run' | 'step'> {
  readonly dir: string;
  readonly plan: string;
  /** From 0. */
  readonly round: number;
}

export interface ShardInput extends RoundInput {
  readonly shard: number;
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
  /** Share of the tokens, over all passes, where the clipped term was the larger loss. */
  readonly clipFraction?: number;
  readonly logprobDrift: UpdateMetrics['logprobDrift'];
  /** Of the tokens that were trained on. */
  readonly staleness?: Staleness;
  /** The batches that its groups come from, where it is not `step-N` alone. */
  readonly batches?: readonly string[];
}

/** How many updates older than the policy that was trained the policies were that sampled: over tokens. */
export interface Staleness {
  readonly mean: number;
  readonly max: number;
  /** Share of tokens that an older policy sampled. */
  readonly offPolicy: number;
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
  /** The oldest under way, or the last one. */
  readonly batch: { readonly name: string; readonly total: number } | null;
  /** Where rollouts and updates overlap: batches that run, and those that have ended and wait for their step. */
  readonly overlap?: { readonly running: number; readonly waiting: number };
  /** A pause that was asked for and not undone; absent: none. */
  readonly pauseAt?: PausePoint;
  /** Why the circuit breaker paused the run; absent: it did not. */
  readonly tripped?: Trip;
  /** The last steps, oldest first; at most 20. */
  readonly recent: readonly StepRecord[];
}

export type { Verdict };
