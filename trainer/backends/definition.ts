/**
 * The seam of backends, with Tinker's names: what holds policies, samples from them and trains them. Types alone, so
 * that a module can import them without the engine.
 */

import type { AdamWSettings, NewLora } from '../../protocol/algorithm.ts';
import type { RunConfig } from '../../protocol/run-config.ts';
import type { SamplingParameters } from '../../protocol/sampling.ts';
import type { Pass } from '../passes.ts';

export type SamplingOption = 'greedy' | 'topP' | 'topK' | 'minP' | 'repetitionPenalty' | 'stop';

/** What a backend can do. A run that asks for more is refused before it starts. */
export interface BackendAbilities {
  readonly name: string;
  /** Schemes of the URIs of its policies and states. Each belongs to one backend. */
  readonly schemes: readonly string[];
  /**
   * `same-bits`: the same calls give the same numbers on any machine, also after a crash. `exactly-once`: a result is
   * recorded and used once; a repeated call may give another one.
   */
  readonly promise: 'same-bits' | 'exactly-once';
  /**
   * Names of the losses that it computes itself. `any`: it trains along `pass.objective`, so that users' losses, KL in
   * the loss and off-policy correction work too.
   */
  readonly losses: 'any' | readonly string[];
  /** True if it returns entropies of a pass, and trains an entropy bonus. */
  readonly entropy: boolean;
  /** True if it trains a critic. Only the embedded backend does. */
  readonly critic: boolean;
  /** True if it trains adapters. */
  readonly lora: boolean;
  /** Options of sampling besides temperature and `maxTokens`. */
  readonly sampling: readonly SamplingOption[];
  /** Most tokens of prompt and answer together. `null`: as many as the policy has. */
  readonly maxContext: number | null;
  /** True if prompts may have images. */
  readonly images: boolean;
}

/** A policy, before it is sampled or trained. */
export interface PolicyDescription {
  readonly parameters: number;
  /** Ids are below it. */
  readonly vocabulary: number;
  /** A directory with `tokenizer.json` and a chat template: a `file:` or `hub:` URI, or an absolute path. */
  readonly tokenizer: string;
  /** Names the policy's contents: other contents have another digest. */
  readonly digest: string;
}

export interface SampleRequest {
  readonly uri: string;
  readonly tokens: readonly number[];
  readonly sampling: SamplingParameters;
  readonly stopTokenIds: readonly number[];
  /** Seed of this call's noise: a repeated call has the same one. */
  readonly noiseKey: string;
  /** Names the rollout, so that a backend can keep its context. */
  readonly rollout: string;
}

export interface SampleAnswer {
  /** Sampled ids, including the stop token. */
  readonly tokens: readonly number[];
  /** log p of each sampled token at the sampling temperature (1 when greedy), before filters. In nats. */
  readonly logprobs: readonly number[];
  /** `context`: the policy's context is full. */
  readonly finish: 'stop' | 'length' | 'context';
  /** The text of `sampling.stop` that ended the answer, if no token did. */
  readonly stopText?: string;
}

export interface StateToOpen {
  /** A saved state, or a first policy. */
  readonly uri: string;
  /** Train a new adapter, unless the state is one. Absent: train all weights. */
  readonly lora?: NewLora;
  /** False if the session only scores. */
  readonly optimizer: boolean;
}

/** Token i is predicted by the tokens before it. A token counts if its mask is 1, except the first. */
export interface ScoredSequence {
  readonly tokens: readonly number[];
  readonly mask: readonly number[];
  /** Temperature that each token was sampled at; 0 (greedy) is read as 1. Absent: 1. */
  readonly temperatures?: readonly number[];
}

/** A sequence with one number per token that counts. */
export interface TrainingSequence extends ScoredSequence {
  /** Scaled for the reduction: the loss is a sum over tokens. */
  readonly advantages: ArrayLike<number>;
  /** Log-probabilities recorded when sampling. */
  readonly recorded: ArrayLike<number>;
  /** Log-probabilities before the update's first step. */
  readonly old: ArrayLike<number>;
  /** Log-probabilities of the reference policy. Absent without KL. */
  readonly reference?: ArrayLike<number>;
}

/** Sequences whose gradient is computed at once, and the loss. `entropies` is false without the ability. */
export type TrainingPass = Pass<TrainingSequence>;

/** One number per token that counts, sequence after sequence. In nats. */
export interface PassAnswer {
  readonly logprobs: ArrayLike<number>;
  readonly entropies?: ArrayLike<number>;
}

export interface StateToSave {
  /** Of this attempt alone: letters, digits, `.`, `-`, `_` and `/`. */
  readonly name: string;
  readonly version: number;
}

export interface SavedState {
  readonly uri: string;
  /** SHA-256 of the weights, as hexadecimal digits; `null` if it is unknown. */
  readonly sha256: string | null;
}

/**
 * What `defineBackend` takes. A function may be called again after a crash, with the same input. Each call has
 * `callSeconds`; its signal ends then, and when nobody waits any more. Saved states never change.
 */
export interface BackendDefinition<Session = unknown> extends BackendAbilities {
  /** Time of one call. Default: 600. */
  readonly callSeconds?: number;
  /**
   * The first setting of a run that the backend cannot honour, beyond what its abilities say: the field, its value and
   * the remedy. `undefined`: none. Asked before the run starts.
   */
  refuse?(
    config: Pick<RunConfig, 'policy' | 'sampling' | 'algorithm'>,
  ): readonly [field: string, value: unknown, remedy: string] | undefined;
  /**
   * The URI of a run's first policy from what is none of this backend's URIs: a `file:` or `hub:` URI. Absent: a run
   * gives a URI of one of `schemes`.
   */
  resolve?(given: string, signal: AbortSignal): Promise<string>;
  describe(uri: string, signal: AbortSignal): Promise<PolicyDescription>;
  sample(request: SampleRequest, signal: AbortSignal): Promise<SampleAnswer>;
  /** Starts a session of training from a saved state. */
  open(state: StateToOpen, signal: AbortSignal): Promise<Session>;
  /** Log-probabilities without training: for each sequence, one number per token that counts. */
  forward(
    session: Session,
    sequences: readonly ScoredSequence[],
    signal: AbortSignal,
  ): Promise<ReadonlyArray<ArrayLike<number>>>;
  /** Adds the pass's gradient to the sum that the next `optimStep` uses. */
  forwardBackward(session: Session, pass: TrainingPass, signal: AbortSignal): Promise<PassAnswer>;
  /** One step along the gradients since the last one. Returns their norm before clipping; `null` if it is unknown. */
  optimStep(
    session: Session,
    settings: AdamWSettings,
    signal: AbortSignal,
  ): Promise<{ readonly gradNorm: number | null }>;
  /** Saves weights and optimizer, complete or not at all. The result can be opened. */
  saveState(session: Session, state: StateToSave, signal: AbortSignal): Promise<SavedState>;
  /** Saves what is sampled. It may be the saved state itself. */
  saveForSampler(session: Session, state: StateToSave, signal: AbortSignal): Promise<{ readonly uri: string }>;
  /** Frees the session; what was not saved is dropped. */
  close?(session: Session): Promise<void>;
}
