/** `bench train`: tokens per second of whole optimizer steps, and peak memory, against PyTorch eager, step by step. */

import { type BenchModel, median, randomIds } from './bench-models.ts';
import { withPair } from './pair.ts';

export interface TrainBenchOptions {
  readonly model: BenchModel;
  /** Sequences per step. */
  readonly batch: number;
  readonly sequenceTokens: number;
  readonly rounds: number;
  /** Applies to both sides. */
  readonly gradientCheckpointing: boolean;
  readonly note: (line: string) => void;
}

interface Trained {
  readonly seconds: number;
  /** Of all threads: the measure that other jobs on the machine change least. */
  readonly processorSeconds: number;
  readonly loss: number;
  readonly gradNorm: number;
}

/** The two programs computed different losses, so their speeds cannot be compared. */
export class NotTheSame extends Error {
  override readonly name = 'NotTheSame';
}

const RATE = 1e-4;
/** Relative tolerance of the loss: the order of float32 sums differs, over a few steps. */
const LOSS_TOLERANCE = 5e-3;

function checkSame(step: number, ours: Trained, theirs: Trained): void {
  if (Math.abs(ours.loss - theirs.loss) > LOSS_TOLERANCE * Math.abs(theirs.loss))
    throw new NotTheSame(`step ${step}: the loss is ${ours.loss} in Longhaul and ${theirs.loss} in the peer`);
}

/** The first step, which allocates and compiles, is not counted; the losses of all steps are compared. */
export async function benchTrain({
  model,
  batch,
  sequenceTokens,
  rounds,
  gradientCheckpointing,
  note,
}: TrainBenchOptions) {
  return withPair(model, note, async ({ own, peer, name, parameters, vocabulary, cores }) => {
    const tokens = batch * (sequenceTokens - 1);
    const [ours, theirs]: [Trained[], Trained[]] = [[], []];
    for (let round = 0; round <= rounds; round += 1) {
      const given = {
        sequences: randomIds(batch, sequenceTokens, vocabulary, `train ${round}`),
        rate: RATE,
        gradientCheckpointing,
      };
      const [mine, its] = [await own.call<Trained>('train', given), await peer.call<Trained>('train', given)];
      checkSame(round, mine, its);
      if (round === 0) continue;
      ours.push(mine);
      theirs.push(its);
      note(
        `bench   ${model} step ${round} of ${rounds}: ${(tokens / mine.seconds).toFixed(0)} tokens/s, ` +
          `peer ${(tokens / its.seconds).toFixed(0)}`,
      );
    }
    const speedOf = (steps: readonly Trained[]): number => median(steps.map(({ seconds }) => tokens / seconds));
    const processorOf = (steps: readonly Trained[]): number =>
      median(steps.map(({ processorSeconds }) => processorSeconds));
    const [tokensPerSecond, peerSpeed] = [speedOf(ours), speedOf(theirs)];
    const [processorSecondsPerStep, peerProcessor] = [processorOf(ours), processorOf(theirs)];
    const [{ bytes: peakBytes }, { bytes: peerBytes }] = [
      await own.call<{ bytes: number }>('peak', {}),
      await peer.call<{ bytes: number }>('peak', {}),
    ];
    return {
      model,
      parameters,
      batch,
      sequenceTokens,
      gradientCheckpointing,
      cores,
      tokensPerSecond,
      processorSecondsPerStep,
      peer: { name, tokensPerSecond: peerSpeed, processorSecondsPerStep: peerProcessor, peakBytes: peerBytes },
      ratio: tokensPerSecond / peerSpeed,
      processorRatio: peerProcessor / processorSecondsPerStep,
      peakBytes,
    };
  });
}
