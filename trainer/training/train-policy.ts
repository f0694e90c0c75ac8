/** The passes of an update, over any backend's session: the engine is not needed for it. */

import type { AdamWSettings, UpdateSettings } from '../../protocol/algorithm.ts';
import type { TrainingSession } from '../backend.ts';
import type { UpdateRequest } from '../update-request.ts';
import { type Objective, objectiveOf, passTokens } from './objective.ts';
import type { Minibatch, PassSequence } from './plan.ts';
import type { PreparedUpdate } from './prepare-update.ts';
import { Tally } from './tally.ts';

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
  session: Pick<TrainingSession, 'forwardBackward'> & {
    optimStep(settings: AdamWSettings): Promise<number | null>;
  },
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
