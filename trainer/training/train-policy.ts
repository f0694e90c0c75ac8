/**
 * The passes of an update, and the loss of each: policy loss and KL over its tokens, and their slope by
 * log-probability. Any backend's session computes the gradient: the engine is not needed for it.
 */

import type { AdamWSettings, UpdateSettings } from '../../protocol/algorithm.ts';
import { klLoss } from '../algorithms/kl.ts';
import { policyLoss } from '../algorithms/losses/policy-loss.ts';
import { policyLosses } from '../algorithms/losses/registry.ts';
import { joined, ones, startsOf } from '../algorithms/rows.ts';
import type { TrainingSession } from '../backend.ts';
import type { Objective, PassSequence } from '../passes.ts';
import type { UpdateRequest } from '../update-request.ts';
import type { Minibatch, PreparedUpdate } from './prepare-update.ts';
import { lossSettings } from './settings.ts';
import { Tally } from './tally.ts';

/** The tokens of a pass, in the order of its batch. */
export interface PassTokens {
  readonly starts: readonly number[];
  readonly mask: Uint8Array;
  readonly recorded: Float64Array;
  readonly old: Float64Array;
  readonly reference: Float64Array | undefined;
  readonly advantages: Float64Array;
}

function passTokens(micro: readonly PassSequence[]): PassTokens {
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
function objectiveOf(
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

/** Settings of a pass. */
export interface PassSettings {
  readonly algorithm: UpdateSettings;
  readonly toVersion: number;
  /** Number of the pass in the whole update, from 0. */
  readonly pass: number;
  readonly epoch: number;
  readonly minibatch: Pick<Minibatch, 'tokens' | 'sequences'>;
}

/** Trains on one micro-batch, and adds its statistics to `tally`. */
export async function forwardBackward(
  session: Pick<TrainingSession, 'forwardBackward'>,
  micro: readonly PassSequence[],
  settings: PassSettings,
  tally: Tally,
): Promise<void> {
  const { algorithm, minibatch, toVersion, pass, epoch } = settings;
  const noiseKey = `update ${toVersion} pass ${pass}`;
  const tokens = passTokens(micro);
  let last: { readonly logprobs: ArrayLike<number>; readonly made: Objective } | undefined;
  const objective = (logprobs: ArrayLike<number>): Objective => {
    if (last?.logprobs === logprobs) return last.made;
    last = { logprobs, made: objectiveOf(tokens, Float32Array.from(logprobs), algorithm, minibatch, noiseKey) };
    return last.made;
  };
  const { logprobs, entropies } = await session.forwardBackward({
    sequences: micro,
    algorithm,
    entropies: epoch === 0,
    entropyWeight: (algorithm.entropyCoefficient ?? 0) / minibatch.tokens,
    noiseKey,
    objective,
  });
  tally.addPass(tokens, { logprobs, entropies: epoch === 0 ? entropies : undefined }, objective(logprobs));
}

/** All passes and steps of an update. `onProgress` receives the finished share of the passes, from 0 to 1. */
export async function trainPolicy(
  session: Pick<TrainingSession, 'forwardBackward'> & { optimStep(settings: AdamWSettings): Promise<number | null> },
  { epochs }: Pick<PreparedUpdate, 'epochs'>,
  { algorithm, toVersion }: Pick<UpdateRequest, 'algorithm' | 'toVersion'>,
  onProgress: (fraction: number) => void,
): Promise<Tally> {
  const tally = new Tally();
  const total = epochs.flat().reduce((sum, { micro }) => sum + micro.length, 0);
  let pass = 0;
  for (const [epoch, minibatches] of epochs.entries()) {
    for (const minibatch of minibatches) {
      for (const micro of minibatch.micro) {
        await forwardBackward(session, micro, { algorithm, toVersion, pass, epoch, minibatch }, tally);
        onProgress(++pass / total);
      }
      tally.addStep(await session.optimStep(algorithm));
    }
  }
  return tally;
}
