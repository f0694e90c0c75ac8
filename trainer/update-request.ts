/** What the engine is asked to train: data, an algorithm, and where the result goes; as a whole, or planned in shards. */

import type { LoraSettings, NewLora, UpdateSettings } from '../protocol/algorithm.ts';

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
