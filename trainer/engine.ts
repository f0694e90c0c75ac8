/**
 * The engine: samples from a policy and trains it. Sampling is a pure function of (weights, tokens, noise key,
 * position), whatever runs beside it; an update writes a new version and changes no old one.
 */

import type { LoraSettings } from './lora/lora-settings.ts';

export interface SamplingParameters {
  /** 0 is greedy. */
  readonly temperature: number;
  readonly topP: number;
  /** 0 is off. */
  readonly topK: number;
  /** Tokens less likely than this share of the likeliest are never drawn; 0, or left out, is off. */
  readonly minP?: number | undefined;
  /** Logits of tokens that are in the context are divided by it (multiplied where negative); 1, or left out, is off. */
  readonly repetitionPenalty?: number | undefined;
  /** Texts that end the answer, with the token that completes one; none when left out. */
  readonly stop?: readonly string[] | undefined;
  readonly maxTokens: number;
}

export interface GenerateRequest {
  /** Directory of the weights (Hugging Face layout) and the policy version that they are. */
  readonly policy: { readonly dir: string; readonly version: number; readonly digest?: string };
  /** Rollouts keep their key-value cache from turn to turn under this name: a hint, never visible in the result. */
  readonly cacheKey: string;
  readonly tokens: readonly number[];
  readonly sampling: SamplingParameters;
  readonly stopTokenIds: readonly number[];
  /** Names the noise of this call: seed, step, task, sample and turn. The position is added per token. */
  readonly noiseKey: string;
  /** So many of the likeliest tokens are told beside each sampled one, and beside each of the prompt's; 0 when left out. */
  readonly topLogprobs?: number;
  /** The prompt's tokens get log-probabilities too; then none of it is taken from the cache. */
  readonly promptLogprobs?: boolean;
}

export interface TokenLogprob {
  readonly token: number;
  /** Nats. */
  readonly logprob: number;
}

/** A token of the prompt, and the likeliest in its place, likeliest first. */
export interface PromptLogprob extends TokenLogprob {
  readonly top: readonly TokenLogprob[];
}

export interface GenerateResult {
  /** Sampled ids, the stop token included. */
  readonly tokens: number[];
  /** log p of each sampled token at the sampling temperature (1 when greedy), before penalty and filters; nats. */
  readonly logprobs: number[];
  readonly finishReason: 'stop' | 'length';
  /** The text that ended the answer, where a text and no token did. */
  readonly stopText?: string;
  /** For each sampled token the likeliest ones, likeliest first, lower ids first among equals. */
  readonly topLogprobs?: ReadonlyArray<readonly TokenLogprob[]>;
  /** For each token of the prompt; nothing comes before the first. */
  readonly promptLogprobs?: ReadonlyArray<PromptLogprob | null>;
}

/** One training sequence: transitions merged by exact prefix. All arrays are as long as `tokens`. */
export interface Datum {
  readonly tokens: readonly number[];
  /** 1 where the policy sampled the token. */
  readonly mask: readonly number[];
  /** As recorded when sampled; 0 where `mask` is 0. */
  readonly logprobs: readonly number[];
  readonly advantage: number;
}

/** An adapter to put beside a policy that has none; the seed is of its first numbers. */
export interface NewLora extends LoraSettings {
  readonly seed: number;
}

/** How one update learns. */
export interface UpdateSettings {
  readonly learningRate: number;
  readonly epochs: number;
  readonly minibatches: number;
  readonly clipLow: number;
  readonly clipHigh: number;
  readonly maxGradNorm: number;
  readonly weightDecay: number;
  readonly betas: readonly [number, number];
  readonly epsilon: number;
  readonly microBatchTokens: number;
}

export interface UpdateRequest {
  readonly fromDir: string;
  /** Written aside as `toDir.partial-*`, then renamed: `toDir` exists only complete. */
  readonly toDir: string;
  readonly toVersion: number;
  readonly data: readonly Datum[];
  readonly algorithm: UpdateSettings;
  /** Trains an adapter instead of the whole policy. */
  readonly lora?: NewLora;
}

export interface UpdateMetrics {
  readonly loss: number;
  readonly kl: number;
  readonly entropy: number;
  readonly gradNorm: number;
  readonly clipFraction: number;
  readonly trainedTokens: number;
  readonly logprobDrift: { readonly meanAbs: number; readonly maxAbs: number };
  /** Of the weights written: see the contract of `summary.json`. */
  readonly sha256: string;
}

export interface Engine {
  generate(request: GenerateRequest, signal?: AbortSignal): Promise<GenerateResult>;
  update(request: UpdateRequest, onProgress?: (fraction: number) => void): Promise<UpdateMetrics>;
  close(): Promise<void>;
}
