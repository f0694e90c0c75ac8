/**
 * The settings of an update as a run gives them, and the metrics that an update reports: types, and the allowed names.
 * The algorithms themselves are in `trainer/algorithms/`.
 */

import type { ObjectRef } from './stages.ts';

export const RATE_SCHEDULES = ['constant', 'linear', 'cosine'] as const;

export interface RateSchedule {
  /** The highest rate. */
  readonly learningRate: number;
  /**
   * Steps during which the rate rises linearly, from 1/warmup of the highest. (`transformers` starts at 0, so its first
   * step learns nothing.)
   */
  readonly warmup: number;
  readonly schedule: (typeof RATE_SCHEDULES)[number];
  /** The final rate, as a fraction of `learningRate`. Default: 0. */
  readonly finalRate?: number;
}

export interface AdamWSettings {
  readonly learningRate: number;
  readonly betas: readonly [number, number];
  readonly epsilon: number;
  /** Applies to all parameters. */
  readonly weightDecay: number;
  /** Gradients with a larger norm are scaled down to this norm. `null`: never. */
  readonly maxGradNorm: number | null;
}

/** The critic has its own AdamW optimizer, with these settings. */
export interface CriticSettings extends AdamWSettings {
  /** Optimizer steps per epoch. Default: as many as the policy has. */
  readonly minibatches?: number;
}

/** SkyRL's `value_clip`. */
export const DEFAULT_VALUE_CLIP = 0.2;

/** Projections of a layer that an adapter may change, by Hugging Face's names. */
export const LORA_TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const;

export interface LoraSettings {
  readonly rank: number;
  /** The product of the two matrices is scaled by alpha / rank. */
  readonly alpha: number;
  readonly targetModules: ReadonlyArray<(typeof LORA_TARGETS)[number]>;
}

export const KL_ESTIMATORS = ['k1', 'k2', 'k3', 'abs'] as const;

export type KlEstimator = (typeof KL_ESTIMATORS)[number];

export const LOSS_REDUCTIONS = [
  'token_mean',
  'token_mean_legacy',
  'sequence_mean',
  'seq_mean_token_sum_norm',
  'prompt_mean',
] as const;

export type LossReduction = (typeof LOSS_REDUCTIONS)[number];

export const TIS_RATIOS = ['none', 'token', 'sequence'] as const;

export const SEQUENCE_MASKS = ['none', 'geometric', 'product'] as const;

export interface OffPolicySettings {
  /** Truncated importance sampling: the loss is weighted by the ratio of each token or of the whole sequence. */
  readonly tisRatioType: (typeof TIS_RATIOS)[number];
  readonly tokenTisRatioClipHigh: number;
  readonly sequenceTisRatioClipHigh: number;
  /** Sequences whose ratio (geometric mean or product) is outside its range are left out. */
  readonly sequenceMaskMetric: (typeof SEQUENCE_MASKS)[number];
  readonly geoMaskLow: number;
  readonly geoMaskHigh: number;
  readonly productMaskLow: number;
  readonly productMaskHigh: number;
  /** A sequence is left out if a single token's ratio is outside these bounds. Either bound may be absent. */
  readonly outlierTokenIsThresholdLow?: number | undefined;
  readonly outlierTokenIsThresholdHigh?: number | undefined;
  /** Tokens whose ratio is outside these bounds are left out. Applies only if both bounds are given. */
  readonly tokenMaskIsThresholdLow?: number | undefined;
  readonly tokenMaskIsThresholdHigh?: number | undefined;
}

export interface LossSettings {
  /** The ratio is clipped to 1 − clipLow … 1 + clipHigh. */
  readonly clipLow: number;
  readonly clipHigh: number;
  /** `dual_clip`: the largest ratio that counts against a token whose advantage is negative. */
  readonly clipRatioC: number;
  readonly cispo: {
    readonly clipLow: number;
    readonly clipHigh: number;
    /** The log-probabilities in the ratio's denominator. */
    readonly anchor: 'old' | 'rollout';
  };
  readonly sapo: { readonly tauPositive: number; readonly tauNegative: number };
  readonly dppo: {
    readonly divergence: 'binary_tv' | 'binary_kl';
    readonly deltaLow: number;
    readonly deltaHigh: number;
  };
  /** The share of tokens, by largest covariance, that get a KL term, and the weight of that term. */
  readonly klCov: { readonly fraction: number; readonly coefficient: number };
  /** The share of all tokens that is left out. They are drawn from the tokens with a covariance between the bounds. */
  readonly clipCov: { readonly ratio: number; readonly lowerBound: number; readonly upperBound: number };
  /** Absent: no correction. */
  readonly offPolicyCorrection?: OffPolicySettings | undefined;
  /** Seeds the random draws of this pass (`clip_cov`): the same key gives the same draws. */
  readonly noiseKey?: string | undefined;
}

/** A new adapter for a policy that has none. The seed sets its initial weights. */
export interface NewLora extends LoraSettings {
  readonly seed: number;
}

/** KL to the reference policy: added to the loss, or subtracted from each token's reward. */
export interface KlSettings {
  readonly in: 'loss' | 'reward';
  readonly estimator: KlEstimator;
  readonly coefficient: number;
}

/** The settings of one update. Default: SkyRL's values. */
export interface UpdateSettings extends Partial<Omit<LossSettings, 'noiseKey' | 'offPolicyCorrection'>> {
  /** Absent: no correction, and the recorded log-probabilities are used as the old policy's. */
  readonly offPolicyCorrection?: Partial<OffPolicySettings>;
  readonly learningRate: number;
  readonly epochs: number;
  readonly minibatches: number;
  /** Gradients with a larger norm are scaled down to this norm. `null`: never. */
  readonly maxGradNorm: number | null;
  readonly weightDecay: number;
  readonly betas: readonly [number, number];
  readonly epsilon: number;
  /** Tokens of a pass: with padding, or without it if `packing` is set. */
  readonly microBatchTokens: number;
  /** True if the sequences of a pass are concatenated without padding. Default: false. */
  readonly packing?: boolean;
  /** True if the backward pass computes layers again: less memory, more time. Default: false. */
  readonly gradientCheckpointing?: boolean;
  /** Digest of the run's modules, which may define advantages and losses. Absent: it has none. */
  readonly modules?: ObjectRef;
  /** An estimator's name. Default: `grpo`. */
  readonly advantage?: string;
  readonly normaliseByStd?: boolean;
  /** Discount per token. Default: 1. */
  readonly gamma?: number;
  /** `gae`: the weight λ of later tokens' errors. Default: 1. */
  readonly lambd?: number;
  /** How far a value may move from its old one before its loss stops falling. `null`: no limit. Default: 0.2. */
  readonly valueClip?: number | null;
  /** A critic, trained in each update before the policy. Absent: none. */
  readonly critic?: CriticSettings;
  /** True if advantages are normalised to mean 0 and standard deviation 1 over all tokens of the update. */
  readonly advantageBatchNormalise?: boolean;
  /** A loss's name. Default: `regular`. */
  readonly loss?: string;
  /** Default: `token_mean`. */
  readonly lossReduction?: LossReduction;
  /** `seq_mean_token_sum_norm`: every sequence's sum is divided by this. */
  readonly maxSequenceTokens?: number;
  /** The mean entropy times this weight is subtracted from the loss. Default: 0. */
  readonly entropyCoefficient?: number;
  readonly kl?: KlSettings;
}

export interface UpdateMetrics {
  readonly loss: number;
  readonly kl: number;
  readonly entropy: number;
  readonly gradNorm: number;
  readonly clipFraction: number;
  readonly trainedTokens: number;
  readonly logprobDrift: { readonly meanAbs: number; readonly maxAbs: number };
  /** All other metrics, under SkyRL's names if it has them. */
  readonly metrics?: Readonly<Record<string, number>>;
  /** SHA-256 of the written weights: see the contract of `summary.json`. */
  readonly sha256: string;
}
