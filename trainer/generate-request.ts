/** A request to sample, and its result: token ids with their log-probabilities. */

import type { SamplingParameters } from '../protocol/sampling.ts';

/** Directory of the weights (Hugging Face layout), and their policy version. */
export interface PolicyName {
  readonly dir: string;
  readonly version: number;
  readonly digest?: string;
  /**
   * A LoRA adapter of these weights that is not merged into them, in PEFT's layout. Requests of many adapters share
   * passes, and one copy of the weights. Left out: the weights alone. (A `dir` that is an adapter is merged instead.)
   */
  readonly adapter?: AdapterName;
}

export interface AdapterName {
  readonly dir: string;
  /** `weightsDigest` of its tensors. If it is given, the files must have it. */
  readonly digest?: string;
}

export interface GenerateRequest {
  readonly policy: PolicyName;
  /**
   * Names the rollout, so that requests of several rollouts are gathered into one pass. Cached context is found by its
   * tokens. Neither changes the result.
   */
  readonly cacheKey: string;
  readonly tokens: readonly number[];
  readonly sampling: SamplingParameters;
  readonly stopTokenIds: readonly number[];
  /** Seed of this call's noise, made of seed, step, task, sample and turn. The position is added per token. */
  readonly noiseKey: string;
  /** Priority among waiting requests, as in Temporal: 1 (first) to 5; default 3. Does not change the result. */
  readonly priority?: number;
  /** Number of most likely tokens to return for each sampled token, and for each prompt token; default 0. */
  readonly topLogprobs?: number;
  /** True to return log-probabilities of the prompt's tokens too; the prompt is then not read from the cache. */
  readonly promptLogprobs?: boolean;
  /** True to refuse a request whose prompt and `maxTokens` exceed the context, instead of ending with `context`. */
  readonly mustFit?: boolean;
}

export interface TokenLogprob {
  readonly token: number;
  /** In nats. */
  readonly logprob: number;
}

/** A prompt token, and the most likely tokens at its position, most likely first. */
export interface PromptLogprob extends TokenLogprob {
  readonly top: readonly TokenLogprob[];
}

export interface GenerateResult {
  /** Sampled ids, including the stop token. */
  readonly tokens: number[];
  /** log p of each sampled token at the sampling temperature (1 when greedy), before penalty and filters. In nats. */
  readonly logprobs: number[];
  /** `context`: the context is full. `length`: `sampling.maxTokens` were sampled. */
  readonly finishReason: 'stop' | 'length' | 'context';
  /** The stop string that ended the answer, if it was a string and not a token. */
  readonly stopText?: string;
  /** For each sampled token, the most likely tokens, most likely first; equal ones by lower id. */
  readonly topLogprobs?: ReadonlyArray<readonly TokenLogprob[]>;
  /** One per prompt token; null for the first, which has no prefix. */
  readonly promptLogprobs?: ReadonlyArray<PromptLogprob | null>;
}
