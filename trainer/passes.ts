/** What crosses a backend's seam in training: types alone, so that they can be imported without the engine. */

import type { UpdateSettings } from '../protocol/algorithm.ts';
import type { Metrics } from './algorithms/losses/loss.ts';
import type { Sample } from './training/sample.ts';
import type { Datum } from './update-request.ts';

/** How sequences become batches. */
export interface Batching {
  /** Tokens of a pass: padding included, or with `packing` without padding. */
  readonly microBatchTokens: number;
  /** Left out: false. */
  readonly packing?: boolean;
}

/** Statistics of the tokens that count, in the batch's order. In nats. */
export interface TokenStatistics {
  readonly logprobs: Float32Array;
  /** Entropy of the distribution that each token was drawn from; only if requested. */
  readonly entropies: Float32Array | undefined;
}

/** One number per token that counts, for each datum that has such tokens. */
export type Scores = ReadonlyMap<Datum, Float64Array>;

/** What a pass needs of a sequence. */
export interface PassSequence {
  readonly sample: Omit<Sample, 'datum'>;
  readonly tokens: readonly number[];
  readonly mask: readonly number[];
  /** Same as the datum's. */
  readonly temperatures?: readonly number[];
  /** Scaled for the reduction over the minibatch. */
  readonly advantages: Float64Array;
}

/** What a pass is trained on, and its slope. */
export interface Objective {
  readonly policyLoss: number;
  /** Before weighting; 0 without KL in the loss. */
  readonly klLoss: number;
  /** d (policy loss + weighted KL) / d logprobs. */
  readonly gradient: Float64Array;
  readonly metrics: Metrics;
}

/** Sequences whose gradient is computed at once, and the loss. */
export interface Pass<Sequence = PassSequence> {
  readonly sequences: readonly Sequence[];
  readonly algorithm: UpdateSettings;
  /** True if the answer must have entropies, unless the backend has none. */
  readonly entropies: boolean;
  /** Each token's entropy times this weight is subtracted from the loss. */
  readonly entropyWeight: number;
  /** Seed of losses with random draws. */
  readonly noiseKey: string;
  /** The loss and its slope by each log-probability, which are given in the order of the sequences. */
  readonly objective: (this: void, logprobs: ArrayLike<number>) => Objective;
}
