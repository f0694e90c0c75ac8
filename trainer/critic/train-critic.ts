/** A critic's part of an update: epochs of minibatches over the same sequences as the policy's, in an order of its own. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { criticLoss } from '../algorithms/critic-loss.ts';
import { startsOf } from '../algorithms/rows.ts';
import { microBatches, shuffled, split } from '../data/batching.ts';
import type { UpdateRequest, UpdateSettings } from '../engine.ts';
import { batchOf, type Batching } from '../model/packed-batch.ts';
import { NoCredit } from '../training/advantages.ts';
import { joined, ones } from '../training/arrays.ts';
import type { Sample } from '../training/sample.ts';
import type { Critic } from './critic.ts';
import { criticMetrics, CriticTally } from './critic-metrics.ts';
import { type CriticSettings, DEFAULT_VALUE_CLIP } from './settings.ts';

/** A sequence of which some tokens count; all arrays are as long as these. */
export interface ValuedSequence {
  readonly tokens: readonly number[];
  readonly mask: readonly number[];
  /** As they were before the first step. */
  readonly values: Float64Array;
  readonly returns: Float64Array;
}

function plan(sequences: readonly ValuedSequence[], settings: UpdateSettings, minibatches: number, key: string): ValuedSequence[][][][] {
  return Array.from({ length: settings.epochs }, (_, epoch) => {
    const order = shuffled(sequences.length, `${key} critic epoch ${epoch}`);
    const parts = split(order.flatMap((i) => sequences[i] ?? []), minibatches);
    return parts.map((part) => microBatches(part, settings));
  });
}

interface Pass {
  /** Of the minibatch's loss, whose mean is over sequences. */
  readonly share: number;
  readonly clip: number;
  readonly batching: Batching;
}

function learnMicroBatch({ model }: Critic, micro: readonly ValuedSequence[], { share, clip, batching }: Pass, tally: CriticTally): void {
  const starts = startsOf(micro.map(({ values }) => values.length));
  const tokens = { starts, mask: ones(starts.at(-1) ?? 0), old: joined(micro.map(({ values }) => values)), returns: joined(micro.map(({ returns }) => returns)) };
  model.learn(batchOf(micro, batching), (values) => {
    const { loss, gradient, clipFraction } = criticLoss({ ...tokens, values }, clip);
    tally.addPass(values, loss * share, clipFraction);
    return Float32Array.from(gradient, (slope) => slope * share);
  });
}

/**
 * The critic's part of an update whose samples have values and `returns`. Errors: `NoCredit` where the estimator gave no
 * returns; `TrainingDiverged`.
 */
export async function learnCritic(
  critic: Critic,
  samples: readonly Sample[],
  returns: readonly Float64Array[] | undefined,
  { algorithm, toVersion }: Pick<UpdateRequest, 'algorithm' | 'toVersion'>,
  onProgress: (fraction: number) => void,
): Promise<Record<string, number>> {
  const { critic: settings } = algorithm;
  if (settings === undefined) return {};
  if (returns === undefined) throw new NoCredit('a critic is trained towards returns, which are estimated token by token from rewards: give advantage gae');
  const sequences = samples.flatMap(({ datum: { tokens, mask }, count, values }, i) =>
    count > 0 && values ? [{ tokens, mask, values, returns: returns[i] ?? values }] : [],
  );
  return trainCritic(critic, sequences, { ...algorithm, critic: settings }, `update ${toVersion}`, onProgress);
}

/**
 * Trains it towards the returns; the same `key` trains in the same order. `onProgress` hears the share that is done.
 * Returns what was measured. Errors: `TrainingDiverged`.
 */
export async function trainCritic(
  critic: Critic,
  sequences: readonly ValuedSequence[],
  settings: UpdateSettings & { readonly critic: CriticSettings },
  key: string,
  onProgress: (fraction: number) => void = () => undefined,
): Promise<Record<string, number>> {
  const { valueClip = DEFAULT_VALUE_CLIP } = settings;
  const { model, optimizer } = critic;
  model.gradientCheckpointing = settings.gradientCheckpointing ?? false;
  const tally = new CriticTally();
  const epochs = plan(sequences, settings, settings.critic.minibatches ?? settings.minibatches, key);
  const total = epochs.flat(2).length;
  let done = 0;
  for (const minibatch of epochs.flat()) {
    const count = minibatch.flat().length;
    for (const micro of minibatch) {
      learnMicroBatch(critic, micro, { share: micro.length / count, clip: valueClip ?? Infinity, batching: settings }, tally);
      onProgress(++done / total);
      // Lets the thread answer its owner between passes.
      await nextTurn();
    }
    tally.addStep(optimizer.apply(model.decoder, model.gradients.flatten(model.decoder), settings.critic));
  }
  return { ...tally.metrics(), ...criticMetrics(sequences), 'critic/critic_lr': settings.critic.learningRate };
}
