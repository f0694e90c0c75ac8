/** What the engine is asked to sample, and what it answers: token ids with their log-probabilities. */

import type { SamplingParameters } from '../protocol/sampling.ts';

export interface GenerateRequest {
  /** Directory of the weights (Hugging Face layout) and the policy version that they are. */
  readonly policy: { readonly dir: string; readonly version: number; readonly digest?: string };
  /** Names the rollout: where several sample, requests gather for a pass. What is cached is found by its tokens; neither is visible in the result. */
  readonly cacheKey: string;
  readonly tokens: readonly number[];
  readonly sampling: SamplingParameters;
  readonly stopTokenIds: readonly number[];
  /** Names the noise of this call: seed, step, task, sample and turn. The position is added per token. */
  readonly noiseKey: string;
  /** When its turn comes beside others: as Temporal's keys, 1 (first) to 5; 3 when left out. Not visible in the result. */
  readonly priority?: number;
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
