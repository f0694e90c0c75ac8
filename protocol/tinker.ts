/**
 * What the Tinker API asks of a model: operations and their results, as they are journalled. Types and constants alone.
 * Losses are sums over tokens and datums, in nats.
 */

/** One sequence of a pass. Position i of `tokens` predicts `targets[i]`; all arrays have the same length. */
export interface TinkerDatum {
  readonly tokens: Int32Array;
  readonly targets: Int32Array;
  /** Of `cross_entropy`; may be negative. Absent: 1. */
  readonly weights?: Float32Array;
  /** Log-probabilities when the targets were sampled. The other losses need them. */
  readonly logprobs?: Float32Array;
  /** The other losses need them. */
  readonly advantages?: Float32Array;
  /** Of `gspo`, which needs it: tokens that are not 0 make the sequence's ratio; at least one is not. */
  readonly ratioMask?: Float32Array;
}

/** p: log-probability now; q: `logprobs`; A: `advantages`; r = exp(p − q). */
export const TINKER_LOSSES = [
  /** −Σ w·p */
  'cross_entropy',
  /** −Σ r·A */
  'importance_sampling',
  /** −Σ min(r·A, clip(r, low, high)·A); config `clip_low_threshold` 0.8, `clip_high_threshold` 1.2. */
  'ppo',
  /** −Σ sg(clip(r, low, high))·p·A; the same config. */
  'cispo',
  /** −Σ (p·A − β/2·(p − q)²); config `beta`, which must be given. */
  'dro',
  /** `ppo` whose r is one per sequence, exp of the mean of p − q where the mask is not 0; each token's own gradient. */
  'gspo',
] as const;
export type TinkerLoss = (typeof TINKER_LOSSES)[number];

export interface TinkerPass {
  readonly data: readonly TinkerDatum[];
  readonly loss: TinkerLoss;
  readonly config: Readonly<Record<string, number>>;
  /** False: `forward`, which never adds a gradient. */
  readonly backward: boolean;
}

export interface TinkerPassResult {
  /** log p of each target, one array per datum. */
  readonly logprobs: readonly Float32Array[];
  /** `name:reduction`; always has `loss:sum`. */
  readonly metrics: Readonly<Record<string, number>>;
}

/** A new adapter. The same settings give the same bits. */
export interface AdapterSettings {
  readonly rank: number;
  readonly alpha: number;
  readonly seed: number;
  readonly attention: boolean;
  readonly mlp: boolean;
  readonly unembed: boolean;
}

/** AdamW with decoupled decay, as torch. `gradClipNorm` 0: no clipping. */
export interface AdamParameters {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly eps: number;
  readonly weightDecay: number;
  readonly gradClipNorm: number;
}

export interface TinkerSample {
  readonly prompt: Int32Array;
  readonly count: number;
  readonly maxTokens: number;
  readonly temperature: number;
  readonly topP: number;
  /** 0: off. */
  readonly topK: number;
  /** Absent: the policy's end tokens. Empty: none. */
  readonly stop?: readonly number[] | readonly string[];
  /** Drawn when the request is accepted, if the caller gave none. Sample i has noise of its own. */
  readonly seed: number;
  readonly promptLogprobs: boolean;
  /** Numbers of most likely tokens to return per prompt position, and per sampled token. */
  readonly topPrompt: number;
  readonly topSampled: number;
}

export interface TinkerSampleResult {
  readonly sequences: ReadonlyArray<{
    readonly tokens: Int32Array;
    readonly logprobs: Float32Array;
    readonly finish: 'stop' | 'length';
    readonly top?: ReadonlyArray<ReadonlyArray<{ readonly token: number; readonly logprob: number }>>;
  }>;
  /** One per prompt token; NaN for the first. */
  readonly promptLogprobs?: Float32Array;
  /** One list per prompt token; empty for the first. */
  readonly topPrompt?: ReadonlyArray<ReadonlyArray<{ readonly token: number; readonly logprob: number }>>;
}

/** What a model or a sampler is asked to do. Operations of one lane run in the order of their numbers. */
export type TinkerOperation =
  | { readonly kind: 'create_model'; readonly baseModel: string; readonly adapter: AdapterSettings }
  /** Into a new model, or into one that exists. */
  | { readonly kind: 'load_weights'; readonly path: string; readonly optimizer: boolean }
  | { readonly kind: 'pass'; readonly pass: TinkerPass }
  | { readonly kind: 'optim_step'; readonly adam: AdamParameters }
  | {
      readonly kind: 'save_weights';
      /** The checkpoint's URI, `tinker://RUN/(weights|sampler_weights)/NAME`. */
      readonly path: string;
      readonly what: 'training' | 'sampler';
      readonly overwrite: boolean;
      /** ISO 8601, UTC. Absent: it stays. */
      readonly expiresAt?: string;
      readonly userMetadata?: unknown;
    }
  | { readonly kind: 'unload_model' }
  | { readonly kind: 'sample'; readonly sample: TinkerSample };

/** What an operation gave. `failed` is an answer too: it never changes and is never tried again. */
export type TinkerResult =
  | { readonly kind: 'done' }
  | { readonly kind: 'pass'; readonly result: TinkerPassResult }
  | { readonly kind: 'optim_step'; readonly gradNorm: number }
  | { readonly kind: 'saved'; readonly path: string; readonly sha256: string; readonly bytes: number }
  | { readonly kind: 'sample'; readonly result: TinkerSampleResult }
  | { readonly kind: 'failed'; readonly category: 'user' | 'server'; readonly message: string };
