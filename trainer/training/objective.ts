/** A pass's objective: policy loss and KL over its tokens, and their gradient by log-probability. */

import { klLoss } from '../algorithms/kl.ts';
import type { Metrics } from '../algorithms/losses/loss.ts';
import { policyLoss } from '../algorithms/losses/policy-loss.ts';
import { policyLosses } from '../algorithms/losses/registry.ts';
import { startsOf, joined, ones } from '../algorithms/rows.ts';
import type { UpdateSettings } from '../../protocol/algorithm.ts';
import type { Minibatch, PassSequence } from './plan.ts';
import { lossSettings } from './settings.ts';

/** The tokens of a pass, in the order of its batch. */
export interface PassTokens {
  readonly starts: readonly number[];
  readonly mask: Uint8Array;
  readonly recorded: Float64Array;
  readonly old: Float64Array;
  readonly reference: Float64Array | undefined;
  readonly advantages: Float64Array;
}

export interface Objective {
  readonly policyLoss: number;
  /** Before weighting; 0 without KL in the loss. */
  readonly klLoss: number;
  /** d (policy loss + weighted KL) / d logprobs. */
  readonly gradient: Float64Array;
  readonly metrics: Metrics;
}

export function passTokens(micro: readonly PassSequence[]): PassTokens {
  const counts = micro.map(({ sample }) => sample.count);
  const references = micro.flatMap(({ sample }) => sample.reference ?? []);
  return {
    starts: startsOf(counts),
    mask: ones(counts.reduce((sum, count) => sum + count, 0)),
    recorded: joined(micro.map(({ sample }) => sample.recorded)),
    old: joined(micro.map(({ sample }) => sample.old)),
    reference: references.length < micro.length ? undefined : joined(references),
    advantages: joined(micro.map(({ advantages }) => advantages)),
  };
}

/** Errors: `LossRefused`, `UnknownName`. */
export function objectiveOf(
  tokens: PassTokens,
  logprobs: Float32Array,
  settings: UpdateSettings,
  { sequences }: Pick<Minibatch, 'sequences'>,
  noiseKey: string,
): Objective {
  const { starts, mask, old, recorded, advantages, reference } = tokens;
  const definition = policyLosses.get(settings.loss ?? 'regular', settings.modules);
  const policy = policyLoss(
    definition,
    { starts, mask, logprobs, old, rollout: recorded, advantages },
    lossSettings(settings, noiseKey),
  );
  if (settings.kl?.in !== 'loss' || reference === undefined) {
    return { policyLoss: policy.loss, klLoss: 0, gradient: policy.gradient, metrics: policy.metrics };
  }
  const { estimator, coefficient } = settings.kl;
  const kl = klLoss({ starts, mask, logprobs, reference }, estimator, sequences);
  const gradient = policy.gradient.map((g, i) => g + coefficient * (kl.gradient[i] ?? 0));
  return { policyLoss: policy.loss, klLoss: kl.value, gradient, metrics: policy.metrics };
}
