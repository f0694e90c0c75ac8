/** One update of a policy from rollouts: the same request writes the same weights, and a finished one trains nothing. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { loadAlgorithms } from './algorithms/load-module.ts';
import { type CheckpointRecord, readCheckpointRecord, writeCheckpoint } from './checkpoint.ts';
import type { Datum, UpdateMetrics, UpdateRequest } from './engine.ts';
import type { Learner, TokenGradient, TokenStatistics } from './learner.ts';
import { batchOf } from './model/packed-batch.ts';
import { countTargets } from './model/token-batch.ts';
import { ResidentPolicy, type Trainee, disposeTrainee, trainedPart } from './resident-policy.ts';
import { advantageMetrics } from './training/advantage-metrics.ts';
import { creditSamples } from './training/advantages.ts';
import { objectiveOf, passTokens } from './training/objective.ts';
import { type Minibatch, type PlannedSample, planUpdate } from './training/plan.ts';
import { atTargets, type Sample } from './training/sample.ts';
import { type Scores, scoresOf, scoresOfPolicy } from './training/score.ts';
import { recomputesOld } from './training/settings.ts';
import { Tally } from './training/tally.ts';

/** An update without a single token to learn from: nothing would be written that differs. */
export class NothingToTrain extends Error {
  override readonly name = 'NothingToTrain';
}

/** KL without a policy to take it to. */
export class NoReference extends Error {
  override readonly name = 'NoReference';
}

type Algorithm = UpdateRequest['algorithm'];

function usefulData({ data, toDir }: UpdateRequest): Datum[] {
  const useful = data.filter((datum) => countTargets(datum) > 0);
  if (useful.length === 0) throw new NothingToTrain(`the ${data.length} sequences for ${toDir} have no token to train`);
  return useful;
}

/** The reference's log-probabilities, where KL needs them; its weights are in memory only while they are computed. */
async function referenceScores({ algorithm, referenceDir, fromDir }: UpdateRequest, learner: Learner, useful: readonly Datum[]): Promise<Scores | undefined> {
  if (algorithm.kl === undefined) return undefined;
  if (referenceDir === undefined) throw new NoReference(`kl in the ${algorithm.kl.in} needs a reference policy`);
  if (referenceDir === fromDir) return scoresOf(learner, useful, algorithm);
  return scoresOfPolicy(referenceDir, useful, algorithm);
}

/** Every datum with what is known of its tokens before the first step. */
async function samplesOf(request: UpdateRequest, learner: Learner, useful: readonly Datum[]): Promise<Sample[]> {
  const { algorithm, data } = request;
  const old = recomputesOld(algorithm) ? await scoresOf(learner, useful, algorithm) : undefined;
  const reference = await referenceScores(request, learner, useful);
  return data.map((datum) => {
    const recorded = atTargets(datum, datum.logprobs);
    return { datum, count: recorded.length, recorded, old: old?.get(datum) ?? recorded, reference: reference?.get(datum) };
  });
}

interface Pass {
  readonly algorithm: Algorithm;
  /** The first pass over each token measures entropy. */
  readonly firstEpoch: boolean;
  readonly minibatch: Minibatch;
  readonly noiseKey: string;
}

function learnMicroBatch(learner: Learner, micro: readonly PlannedSample[], pass: Pass, tally: Tally): void {
  const { algorithm, minibatch } = pass;
  const tokens = passTokens(micro);
  const bonus = algorithm.entropyCoefficient ?? 0;
  learner.learn(batchOf(micro, algorithm), bonus > 0 ? 'trained' : pass.firstEpoch, (statistics: TokenStatistics): TokenGradient => {
    const objective = objectiveOf(tokens, statistics.logprobs, algorithm, minibatch, pass.noiseKey);
    tally.addPass(tokens, pass.firstEpoch ? statistics : { ...statistics, entropies: undefined }, objective);
    const logprobs = Float32Array.from(objective.gradient);
    return bonus > 0 ? { logprobs, entropies: new Float32Array(logprobs.length).fill(-bonus / minibatch.tokens) } : { logprobs };
  });
}

async function train(
  { learner, optimizer }: Trainee,
  epochs: readonly (readonly Minibatch[])[],
  { algorithm, toVersion }: UpdateRequest,
  onProgress: (fraction: number) => void,
): Promise<Tally> {
  const tally = new Tally();
  const total = epochs.flat().reduce((sum, { micro }) => sum + micro.length, 0);
  let done = 0;
  for (const [epoch, minibatches] of epochs.entries()) {
    for (const minibatch of minibatches) {
      for (const micro of minibatch.micro) {
        const noiseKey = `update ${toVersion} pass ${done}`;
        learnMicroBatch(learner, micro, { algorithm, firstEpoch: epoch === 0, minibatch, noiseKey }, tally);
        onProgress(++done / total);
        // Lets the thread answer its owner between passes.
        await nextTurn();
      }
      tally.addStep(optimizer.apply(learner.policy.trainable, learner.gradients.flatten(learner.policy), algorithm));
    }
  }
  return tally;
}

/** Trains what was taken, and says what was measured. */
async function learn(request: UpdateRequest, trainee: Trainee, onProgress: (fraction: number) => void): Promise<Omit<UpdateMetrics, 'sha256'>> {
  const { algorithm, toVersion } = request;
  const samples = await samplesOf(request, trainee.learner, usefulData(request));
  const { advantages, metrics } = creditSamples(samples, algorithm);
  const items = samples.flatMap((sample, i) => (sample.count > 0 ? [{ sample, advantages: advantages[i] ?? new Float64Array(0) }] : []));
  const epochs = planUpdate(items, algorithm, `update ${toVersion}`);
  const tally = await train(trainee, epochs, request, onProgress);
  const tokens = items.reduce((sum, { sample }) => sum + sample.count, 0);
  return tally.metrics(tokens, items.length, algorithm, { ...advantageMetrics(advantages), ...metrics });
}

function metricsOf(record: CheckpointRecord): UpdateMetrics {
  return { ...(record.metrics as Omit<UpdateMetrics, 'sha256'>), sha256: record.sha256 };
}

async function save(request: UpdateRequest, { learner, optimizer }: Trainee, metrics: Omit<UpdateMetrics, 'sha256'>) {
  return writeCheckpoint(request.toDir, {
    ...trainedPart(learner),
    optimizer: { steps: optimizer.steps, moments: optimizer.save(learner.policy.trainable.layout) },
    step: request.toVersion,
    version: request.toVersion,
    fromDir: request.fromDir,
    metrics,
  });
}

/** Updates in one thread; the policy that was written last stays in memory. */
export class Updater {
  readonly #resident = new ResidentPolicy();

  /**
   * Advantages by the estimator, then the loss by its name, scaled by its reduction, and AdamW. `loss` is the mean over the
   * optimizer's steps; `kl`, to the policy that sampled, and `clipFraction` are means over all passes, `entropy` over the
   * first epoch, `gradNorm` over the steps, `logprobDrift` over the tokens of the first minibatch, before any step.
   * Errors: `NothingToTrain`, `NoReference`, `NoCredit`, `UnknownName`, `LossRefused`, `TooFewTokens`, `TrainingDiverged`,
   * those of reading `fromDir`.
   */
  async run(request: UpdateRequest, onProgress: (fraction: number) => void = () => undefined): Promise<UpdateMetrics> {
    const recorded = await readCheckpointRecord(request.toDir);
    if (recorded !== undefined) {
      onProgress(1);
      return metricsOf(recorded);
    }
    usefulData(request);
    await loadAlgorithms(request.algorithm.module);
    const trainee = await this.#resident.take(request.fromDir, request.lora);
    trainee.learner.gradientCheckpointing = request.algorithm.gradientCheckpointing ?? false;
    try {
      const metrics = await learn(request, trainee, onProgress);
      const { record, written } = await save(request, trainee, metrics);
      if (written) await this.#resident.keep(request.toDir, trainee);
      else disposeTrainee(trainee);
      return metricsOf(record);
    } catch (error) {
      disposeTrainee(trainee);
      throw error;
    }
  }
}

const updater = new Updater();

/** `Updater.run` of this thread's one updater. */
export const runUpdate = (request: UpdateRequest, onProgress?: (fraction: number) => void): Promise<UpdateMetrics> =>
  updater.run(request, onProgress);
