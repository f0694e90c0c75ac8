/** The resolved configuration of a run, as workflows read it; `config/run-config.ts` checks what is given. */

import type { CriticSettings, KlSettings, UpdateSettings, LoraSettings, RateSchedule } from './algorithm.ts';
import type { SamplingParameters } from './sampling.ts';
import type { BreakerSettings } from './breaker.ts';
import type { DispatcherSettings, StragglerSettings } from './batch.ts';
import type { AgentSettings } from './rollout.ts';

/** The highest learning rate is reached after `warmup` steps, and falls by `schedule` over the run's steps. */
export interface AlgorithmSettings extends UpdateSettings, Required<RateSchedule> {
  readonly advantage: string;
  /** Groups whose rewards are all alike are left out; absent: they are. */
  readonly zeroVarianceFilter?: boolean;
  /** What did not finish by itself is in its group's baseline alone. */
  readonly overlongFilter?: boolean;
  readonly kl?: KlSettings & Partial<KlControllerSettings>;
  /**
   * `base`: a policy's or a critic's directory that it begins as; absent: the run's base policy. With `lora` an adapter
   * beside that is trained.
   */
  readonly critic?: CriticSettings & Required<RateSchedule> & { readonly base?: string; readonly lora?: LoraSettings };
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
  /** `disaggregated`: updates wait for workers that train, on a queue of their own; absent: `colocated`, whoever samples trains. */
  readonly placement?: TrainingPlacement;
}

export type TrainingPlacement = 'colocated' | 'disaggregated';

/** The resolved configuration of a run: the argument of the `train` workflow, and `config.yaml` of its folder. */
export interface RunConfig {
  readonly run: string;
  /** Absolute directory that the run's folder is made in. */
  readonly dir: string;
  readonly seed: number;
  readonly steps: number;
  /** With `lora` an adapter beside the base is trained, and the base stays as it is. One that is an adapter goes on as that. */
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
