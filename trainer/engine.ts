/**
 * The engine: samples from a policy and trains it. Sampling is a pure function of (weights, tokens, noise key,
 * position), whatever runs beside it; an update writes a new version and changes no old one.
 */

import type { SamplingParameters, GenerateCost } from '../protocol/sampling.ts';
import type { NewLora, UpdateSettings, UpdateMetrics, LoraSettings } from '../protocol/algorithm.ts';

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

/** What a sequence's advantage is estimated from. */
export interface Credit {
  /** Of the whole rollout. */
  readonly reward: number;
  /** Rollouts of one group are compared with each other. */
  readonly group: string;
  /** Sequences of one rollout share its advantage: its template rewrote the past between them. They stand together, in order. */
  readonly rollout: string;
}

/** One training sequence: transitions merged by exact prefix. All arrays are as long as `tokens`. */
export interface Datum {
  readonly tokens: readonly number[];
  /** 1 where the policy sampled the token; nowhere: the rollout has a part in its group's baseline alone. */
  readonly mask: readonly number[];
  /** As recorded when sampled; 0 where `mask` is 0. */
  readonly logprobs: readonly number[];
  /** That each token was sampled at, and its log-probability is of; 0 (greedy) counts as 1. Left out: 1. */
  readonly temperatures?: readonly number[];
  /** Of every token that counts, where the caller knows it; else it is estimated from the `credit` of all data. */
  readonly advantage?: number;
  readonly credit?: Credit;
}

export interface UpdateRequest {
  readonly fromDir: string;
  /** Written aside as `toDir.partial-*`, then renamed: `toDir` exists only complete. */
  readonly toDir: string;
  readonly toVersion: number;
  readonly data: readonly Datum[];
  readonly algorithm: UpdateSettings;
  /** Directory of the weights that KL is taken to. */
  readonly referenceDir?: string;
  /** Trains a new adapter instead of the whole policy; one that is an adapter goes on as the one that it is. */
  readonly lora?: NewLora;
  /** Names all that the result follows from: a `toDir` that was made from something else is not taken for it. Left out: any is. */
  readonly input?: string;
  /** What a critic begins as where `fromDir` has none beside it; left out: `fromDir` itself, by seed 0. */
  readonly critic?: NewCritic;
}

/** A policy's directory, or a critic's; a head that is not there is drawn by the seed. */
export interface NewCritic {
  readonly base: string;
  readonly seed: number;
  /** It is trained as an adapter: as the one that it begins as, or as a new one beside it. */
  readonly lora?: LoraSettings | undefined;
}

/** An update whose gradients are made in shards, by several workers. */
export interface PlanRequest extends UpdateRequest {
  /** Folder of the update's own files, which all workers see. */
  readonly dir: string;
  readonly shards: number;
}

export interface PlannedUpdate {
  /** SHA-256 of the plan. */
  readonly plan: string;
  /** For each optimizer step the number of its shards: fewer than were asked for where there is less data. */
  readonly rounds: readonly number[];
}

/** One optimizer step of a planned update; `round` counts from 0. */
export interface RoundRequest {
  readonly dir: string;
  readonly plan: string;
  readonly round: number;
}

export interface ShardRequest extends RoundRequest {
  readonly shard: number;
}

export interface Engine {
  /** `onCost` hears of a call that succeeds, before its result is there; an engine that does not know tells nothing. */
  generate(
    request: GenerateRequest,
    signal?: AbortSignal,
    onCost?: (cost: GenerateCost) => void,
  ): Promise<GenerateResult>;
  update(request: UpdateRequest, onProgress?: (fraction: number) => void): Promise<UpdateMetrics>;
  close(): Promise<void>;
}

/** An engine that shares updates with others: a plan, then for each step its shards, in any order and anywhere, and the step. */
export interface PoolEngine extends Engine {
  planUpdate(request: PlanRequest): Promise<PlannedUpdate>;
  forwardBackward(request: ShardRequest, onProgress?: (fraction: number) => void): Promise<void>;
  optimStep(request: RoundRequest, onProgress?: (fraction: number) => void): Promise<void>;
}
