/** A critic's part of an update: epochs of minibatches over the policy's sequences, in a separate order. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { criticLoss } from '../algorithms/critic-loss.ts';
import { startsOf, joined, ones } from '../algorithms/rows.ts';
import { microBatchesFor, shuffled, split } from '../data/batching.ts';
import { type UpdateSettings, type CriticSettings, DEFAULT_VALUE_CLIP } from '../../protocol/algorithm.ts';
import { batchOf } from '../model/packed-batch.ts';
import { type Critic, stepCritic } from './critic.ts';
import { criticMetrics, CriticTally } from './critic-metrics.ts';
import type { ValuedSequence } from './valued-sequences.ts';

/** Settings of an update that trains a critic. */
export type SettingsWithCritic = UpdateSettings & { readonly critic: CriticSettings };

/** `undefined` if the update trains no critic. */
export const settingsWithCritic = (algorithm: UpdateSettings): SettingsWithCritic | undefined =>
  algorithm.critic && { ...algorithm, critic: algorithm.critic };

/** One optimizer step: its passes, and their number of sequences. */
export interface CriticStep<Sequence = ValuedSequence> {
  readonly micro: ReadonlyArray<readonly Sequence[]>;
  readonly sequences: number;
}

/** The steps of all epochs, each divisible into `shards`. `key` is the seed of the order. */
export function planCritic<S extends ValuedSequence>(
  sequences: readonly S[],
  settings: SettingsWithCritic,
  key: string,
  shards = 1,
): Array<CriticStep<S>> {
  const minibatches = settings.critic.minibatches ?? settings.minibatches;
  return Array.from({ length: settings.epochs }, (_, epoch) => {
    const order = shuffled(sequences.length, `${key} critic epoch ${epoch}`);
    const parts = split(
      order.flatMap((i) => sequences[i] ?? []),
      minibatches,
    );
    return parts.map((part) => ({ micro: microBatchesFor(part, settings, shards), sequences: part.length }));
  }).flat();
}

/**
 * Adds the gradient of `micro`, a part of a step's sequences. The step's loss is a mean over all `sequences` of them.
 */
export async function forwardBackwardValues(
  { model }: Critic,
  micro: readonly ValuedSequence[],
  sequences: number,
  settings: SettingsWithCritic,
  tally: CriticTally,
): Promise<void> {
  const { valueClip = DEFAULT_VALUE_CLIP } = settings;
  const share = micro.length / sequences;
  const starts = startsOf(micro.map(({ values }) => values.length));
  const tokens = {
    starts,
    mask: ones(starts.at(-1) ?? 0),
    old: joined(micro.map(({ values }) => values)),
    returns: joined(micro.map(({ returns }) => returns)),
  };
  model.gradientCheckpointing = settings.gradientCheckpointing ?? false;
  model.forwardBackward(batchOf(micro, settings), (values) => {
    const { loss, gradient, clipFraction } = criticLoss({ ...tokens, values }, valueClip ?? Infinity);
    tally.addPass(values, loss * share, clipFraction);
    return Float32Array.from(gradient, (slope) => slope * share);
  });
  // Lets the thread handle messages between passes.
  await nextTurn();
}

/**
 * Trains the critic towards the returns; the same `key` gives the same order. `onProgress` receives the finished share
 * of the passes, from 0 to 1. Returns the metrics. Errors: `TrainingDiverged`.
 */
export async function trainCritic(
  critic: Critic,
  sequences: readonly ValuedSequence[],
  settings: SettingsWithCritic,
  key: string,
  onProgress: (fraction: number) => void = () => undefined,
): Promise<Record<string, number>> {
  const { model } = critic;
  const tally = new CriticTally();
  const steps = planCritic(sequences, settings, key);
  const total = steps.reduce((sum, { micro }) => sum + micro.length, 0);
  let done = 0;
  for (const step of steps) {
    for (const micro of step.micro) {
      await forwardBackwardValues(critic, micro, step.sequences, settings, tally);
      onProgress(++done / total);
    }
    tally.addStep(stepCritic(critic, model.gradients.flatten(model.decoder), settings.critic));
  }
  return criticMetrics(tally, sequences, settings.critic);
}
