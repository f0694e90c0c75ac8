/** The resolved configuration of a run, as workflows read it. `config/run-config.ts` has the schema. */

import type { CriticSettings, KlSettings, UpdateSettings, LoraSettings, RateSchedule } from './algorithm.ts';
import type { SamplingParameters } from './sampling.ts';
import type { Budget } from './budget.ts';
import type { Judges } from './judge.ts';
import type { BreakerSettings } from './breaker.ts';
import type { DispatcherSettings, StragglerSettings } from './batch.ts';
import type { AgentSettings } from './rollout.ts';
import type { OpenedEngine } from './engine.ts';
import type { OpenedTasks } from './task-key.ts';

/** The learning rate is highest after `warmup` steps, and falls by `schedule` over the run's steps. */
export interface AlgorithmSettings extends UpdateSettings, Required<RateSchedule> {
  readonly advantage: string;
  /** True if groups whose rewards are all equal are left out. Absent: true. */
  readonly zeroVarianceFilter?: boolean;
  /** True if a rollout that did not finish by itself counts in its group's baseline only, and is not trained on. */
  readonly overlongFilter?: boolean;
  readonly kl?: KlSettings & Partial<KlControllerSettings>;
  /**
   * `base`: the directory of the policy or critic that the critic starts from. Absent: the run's base policy. With
   * `lora` only an adapter is trained.
   */
  readonly critic?: CriticSettings & Required<RateSchedule> & { readonly base?: string; readonly lora?: LoraSettings };
}

/** How the weight of KL changes from step to step. */
export interface KlControllerSettings {
  readonly controller: 'fixed' | 'adaptive';
  /** `adaptive`: the target KL. In nats per token. */
  readonly target: number;
  /** `adaptive`: the horizon. In sequences. */
  readonly horizon: number;
}

export interface EvaluationSettings {
  /**
   * Number of held-out tasks, each sampled once at temperature 1 and, with `greedy`, once greedily. Absent: 200, or all
   * if there are fewer.
   */
  readonly tasks?: number;
  /** Absent: `held-out`, `test` or `validation`, the first of them that the dataset has. */
  readonly split?: string;
  readonly greedy: boolean;
  /** Steps between evaluations. 0: only before the first and after the last step. */
  readonly every: number;
}

export interface BatchSettings {
  /** Groups of a step. */
  readonly tasks: number;
  /** Rollouts of a group. */
  readonly samples: number;
  readonly dynamicSampling: {
    /**
     * `filter`: a step draws groups until `tasks` of them vary in reward, and trains on those. `replace`: a step draws
     * `tasks` groups, and copies of those that vary replace those that do not. If too few vary, it draws others.
     */
    readonly type: 'none' | 'filter' | 'replace';
    /** A step draws at most this many times `tasks` groups, then trains on those that vary. */
    readonly maxSampleBatches: number;
    /** `replace`: more than this share of the groups must vary. */
    readonly minReplaceRatio?: number;
  };
  /** When a step stops waiting for its last rollouts. These are masked. */
  readonly stragglers?: StragglerSettings;
}

/** How rollouts and updates alternate or overlap. */
export interface TrainingSettings {
  /**
   * `sync`: a step's rollouts, then its update. `one-step-off`: the next step's rollouts run during an update. `async`:
   * a group starts whenever one ends, within the bound on staleness.
   */
  readonly mode: 'sync' | 'one-step-off' | 'async';
  /** `async`: most updates between the policy at a group's start and the policy that is trained on the group. */
  readonly maxStalenessSteps?: number;
  /** The version that samples a rollout's later turns: the newest one at each turn, or the one at its start. */
  readonly rolloutVersion?: 'newest' | 'begin';
  /** Rollouts are masked if a token is more updates old than this. Absent: never. */
  readonly maskStalenessSteps?: number;
  /** Parts of each optimizer step's gradient, each computed by any free worker. Absent: one worker computes it all. */
  readonly shards?: number;
  /** `disaggregated`: updates have their own queue and workers. Absent: `colocated`, workers that sample also train. */
  readonly placement?: TrainingPlacement;
}

export type TrainingPlacement = 'colocated' | 'disaggregated';

/** One environment, opened with options, under its own name. */
export interface TaskEntry {
  /** Unique. Task keys start with it. */
  readonly source: string;
  readonly environment: string;
  readonly options: Readonly<Record<string, unknown>>;
  /** Absolute. Relative paths in `options` start there. Absent: `options` is empty. */
  readonly folder?: string;
  /** Share of a step's groups, in proportion to the other entries. */
  readonly weight: number;
  /** The split that steps draw from. */
  readonly split: string;
  /** Number of tasks of `split` that steps draw from: the first ones. Absent: all; of a generator's split, 1000. */
  readonly train?: number;
}

/** The resolved configuration of a run: the argument of the `train` workflow, and `config.yaml` of its folder. */
export interface RunConfig {
  readonly run: string;
  /** Absolute path of the directory that contains the run's folder. */
  readonly dir: string;
  readonly seed: number;
  readonly steps: number;
  /**
   * `base`: the URI of the first policy. `backend`: the name of what samples and trains it. With `lora` only an adapter
   * is trained. Without: if the base is an adapter, training continues it. `maxContextTokens`: the longest context of
   * the policy; absent: what its configuration and the memory allow.
   */
  readonly policy: {
    readonly base: string;
    readonly backend: string;
    readonly lora?: LoraSettings;
    readonly maxContextTokens?: number;
  };
  /** Absolute paths of users' modules, which define what the run names. Absent: none. */
  readonly modules?: readonly string[];
  /** What steps and evaluations draw from. */
  readonly tasks: readonly TaskEntry[];
  readonly batch: BatchSettings;
  readonly agent: AgentSettings;
  readonly sampling: SamplingParameters;
  /** Models that environments and tools ask, by name. Absent: none. */
  readonly judges?: Judges;
  /** The run pauses when it is spent. Absent: no limit. */
  readonly budget?: Budget;
  readonly dispatcher: DispatcherSettings;
  /** Absent: `sync`. */
  readonly training?: TrainingSettings;
  readonly algorithm: AlgorithmSettings;
  readonly evaluation: EvaluationSettings;
  /** Steps between kept checkpoints. The last checkpoint is always kept. */
  readonly checkpoint: { readonly every: number };
  /** When the run is paused because rollouts fail with one class. Absent: the default. */
  readonly breaker?: BreakerSettings;
}

/** A run that has been opened: its tasks are fixed. */
export interface OpenedConfig extends RunConfig {
  readonly opened: OpenedTasks;
  /** The kinds of engines that make its products. Absent: it was not asked yet. */
  readonly engine?: OpenedEngine['kinds'];
  /** The policy's backend cannot sample greedily. Absent: it can. */
  readonly withoutGreedy?: true;
}

/** One setting that was changed on a live run, after `step` steps. */
export interface ConfigChange {
  readonly at: string;
  readonly step: number;
  /** Dotted name, as in the configuration. */
  readonly field: string;
  /** `null` if it was not set. */
  readonly from: number | null;
  readonly to: number;
}
