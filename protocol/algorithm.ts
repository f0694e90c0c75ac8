/**
 * The settings of an update, as a run states them, and what an update says of itself. Types, and the names that a
 * setting may have; what they do is in `trainer/algorithms/`.
 */

export const RATE_SCHEDULES = ['constant', 'linear', 'cosine'] as const;

export interface RateSchedule {
  /** The highest. */
  readonly learningRate: number;
  /** Steps during which the rate rises linearly; `transformers` begins at 0, a step in which nothing is learnt, here it is 1/warmup. */
  readonly warmup: number;
  readonly schedule: (typeof RATE_SCHEDULES)[number];
  /** Where the rate falls to, as a fraction of `learningRate`; 0 when left out. */
  readonly finalRate?: number;
}

export interface AdamWSettings {
  readonly learningRate: number;
  readonly betas: readonly [number, number];
  readonly epsilon: number;
  /** On all parameters. */
  readonly weightDecay: number;
  /** Larger gradients are scaled down to this norm; `null`: none is. */
  readonly maxGradNorm: number | null;
}

/** `learningRate` and the rest are AdamW's, of an optimizer of the critic's own. */
export interface CriticSettings extends AdamWSettings {
  /** Optimizer steps of an epoch; left out: as many as the policy's. */
  readonly minibatches?: number;
}

/** SkyRL's `value_clip`. */
export const DEFAULT_VALUE_CLIP = 0.2;

/** Projections of a layer that an adapter may stand beside, by Hugging Face's names. */
export const LORA_TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const;

export interface LoraSettings {
  readonly rank: number;
  /** A product of the two matrices counts alpha / rank. */
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
  /** Truncated importance sampling: the loss is weighted by the ratio of each token, or of the whole sequence. */
  readonly tisRatioType: (typeof TIS_RATIOS)[number];
  readonly tokenTisRatioClipHigh: number;
  readonly sequenceTisRatioClipHigh: number;
  /** Sequences whose ratio (geometric mean, or product) is outside of its range are left out. */
  readonly sequenceMaskMetric: (typeof SEQUENCE_MASKS)[number];
  readonly geoMaskLow: number;
  readonly geoMaskHigh: number;
  readonly productMaskLow: number;
  readonly productMaskHigh: number;
  /** A sequence with a single token outside is left out; either bound may be absent. */
  readonly outlierTokenIsThresholdLow?: number | undefined;
  readonly outlierTokenIsThresholdHigh?: number | undefined;
  /** Tokens outside are left out; in force where both are given. */
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
    /** What the ratio is taken against. */
    readonly anchor: 'old' | 'rollout';
  };
  readonly sapo: { readonly tauPositive: number; readonly tauNegative: number };
  readonly dppo: {
    readonly divergence: 'binary_tv' | 'binary_kl';
    readonly deltaLow: number;
    readonly deltaHigh: number;
  };
  /** Share of the tokens with the largest covariance, and the weight of their KL. */
  readonly klCov: { readonly fraction: number; readonly coefficient: number };
  /** Share of all tokens that are left out, drawn among those whose covariance lies between the bounds. */
  readonly clipCov: { readonly ratio: number; readonly lowerBound: number; readonly upperBound: number };
  /** Absent: no correction. */
  readonly offPolicyCorrection?: OffPolicySettings | undefined;
  /** Names the draws of this pass (`clip_cov`): the same name, the same draws. */
  readonly noiseKey?: string | undefined;
}

/** An adapter to put beside a policy that has none; the seed is of its first numbers. */
export interface NewLora extends LoraSettings {
  readonly seed: number;
}

/** KL to the reference policy: in the loss, or taken off each token's reward. */
export interface KlSettings {
  readonly in: 'loss' | 'reward';
  readonly estimator: KlEstimator;
  readonly coefficient: number;
}

/** How one update learns; what is left out takes SkyRL's default. */
export interface UpdateSettings extends Partial<Omit<LossSettings, 'noiseKey' | 'offPolicyCorrection'>> {
  /** Absent: none; the log-probabilities that were recorded then stand for the old policy's. */
  readonly offPolicyCorrection?: Partial<OffPolicySettings>;
  readonly learningRate: number;
  readonly epochs: number;
  readonly minibatches: number;
  /** Gradients of a larger norm are scaled down to it; `null`: none is. */
  readonly maxGradNorm: number | null;
  readonly weightDecay: number;
  readonly betas: readonly [number, number];
  readonly epsilon: number;
  /** Tokens of a pass: padded, or with `packing` as they are. */
  readonly microBatchTokens: number;
  /** Sequences stand in a pass one after the other, without padding; left out: false. */
  readonly packing?: boolean;
  /** Layers are computed again in the backward pass, which takes less memory and more time; left out: false. */
  readonly gradientCheckpointing?: boolean;
  /** A module whose `defineAdvantage` and `defineLoss` are in force then: an absolute path. */
  readonly module?: string;
  /** An estimator's name; left out: `grpo`. */
  readonly advantage?: string;
  readonly normaliseByStd?: boolean;
  /** Discount per token; left out: 1. */
  readonly gamma?: number;
  /** `gae`: how much of the later tokens' errors counts, λ; left out: 1. */
  readonly lambd?: number;
  /** How far from where it was a value may move before its loss no longer falls; `null`: as far as it likes. Left out: 0.2. */
  readonly valueClip?: number | null;
  /** A critic is trained beside the policy, before it; absent: there is none. */
  readonly critic?: CriticSettings;
  /** Mean 0 and deviation 1 over all tokens of the update. */
  readonly advantageBatchNormalise?: boolean;
  /** A loss's name; left out: `regular`. */
  readonly loss?: string;
  /** Left out: `token_mean`. */
  readonly lossReduction?: LossReduction;
  /** `seq_mean_token_sum_norm`: what every sequence is divided by. */
  readonly maxSequenceTokens?: number;
  /** Weight of the mean entropy in the loss, with a minus; left out: 0. */
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
  /** Everything else that was measured, by SkyRL's names where it has one. */
  readonly metrics?: Readonly<Record<string, number>>;
  /** Of the weights written: see the contract of `summary.json`. */
  readonly sha256: string;
}
