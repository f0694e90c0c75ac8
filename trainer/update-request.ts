/** A request to train: data, an algorithm, and the result's directory; as a whole, or planned in shards. */

import type { LoraSettings, NewLora, UpdateSettings } from '../protocol/algorithm.ts';

/** The values that a sequence's advantage is estimated from. */
export interface Credit {
  /** Reward of the whole rollout. */
  readonly reward: number;
  /**
   * Rewards of single turns, as [tokens of the sequence that count up to the turn's end, reward]: each is at the turn's
   * last token, and what remains of `reward` at the sequence's last. Absent: all of it is there.
   */
  readonly turns?: ReadonlyArray<readonly [tokens: number, reward: number]>;
  /** Name of the group. Rollouts of one group are compared with each other. */
  readonly group: string;
  /**
   * Name of the rollout. It has several sequences if it has sub-agents or summaries, or if its chat template rewrote
   * earlier turns. They share its advantage; to an estimator over tokens each is an episode of its own.
   */
  readonly rollout: string;
}

/** One training sequence: transitions merged by exact prefix. All arrays are as long as `tokens`. */
export interface Datum {
  readonly tokens: readonly number[];
  /** 1 if the policy sampled the token. If all are 0, the rollout is used in its group's baseline only. */
  readonly mask: readonly number[];
  /** Log-probabilities recorded when sampling; 0 if `mask` is 0. */
  readonly logprobs: readonly number[];
  /** Temperature that each token and its log-probability were sampled at; 0 (greedy) is read as 1. Absent: 1. */
  readonly temperatures?: readonly number[];
  /**
   * Advantage of every token that counts, if the caller knows it; else it is estimated from the `credit` of all data.
   */
  readonly advantage?: number;
  readonly credit?: Credit;
}

export interface UpdateRequest {
  readonly fromDir: string;
  /** Written as `toDir.partial-*`, then renamed, so that `toDir` is always complete. */
  readonly toDir: string;
  readonly toVersion: number;
  readonly data: readonly Datum[];
  readonly algorithm: UpdateSettings;
  /** Directory of the reference policy's weights, for KL. */
  readonly referenceDir?: string;
  /** Trains a new adapter instead of the whole policy. If the policy is an adapter already, training continues it. */
  readonly lora?: NewLora;
  /**
   * Names everything that the result depends on. An existing `toDir` with another `input` is not accepted; absent: any
   * is.
   */
  readonly input?: string;
  /** The start of a new critic if `fromDir` has none; absent: `fromDir` itself, with seed 0. */
  readonly critic?: NewCritic;
}

/** Directory of a policy or a critic. If it has no value head, one is drawn from the seed. */
export interface NewCritic {
  readonly base: string;
  readonly seed: number;
  /** The critic is trained as an adapter: the one in `base`, or a new one with these settings. */
  readonly lora?: LoraSettings | undefined;
}

/** An update whose gradients are computed in shards, by several workers. */
export interface PlanRequest extends UpdateRequest {
  /** Folder of the update's own files, which all workers can access. */
  readonly dir: string;
  readonly shards: number;
}

export interface PlannedUpdate {
  /** SHA-256 of the plan. */
  readonly plan: string;
  /** Number of shards of each optimizer step; fewer than requested if there is too little data. */
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
