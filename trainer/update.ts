/** One update of a policy from rollouts: the same request writes the same weights, and a finished one trains nothing. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { logprobDrift, ppoLoss } from './algorithms/ppo-loss.ts';
import { microBatches, shuffled, split } from './batching.ts';
import { type CheckpointRecord, readCheckpointRecord, writeCheckpoint } from './checkpoint.ts';
import type { Datum, UpdateMetrics, UpdateRequest } from './engine.ts';
import type { Learner, TokenStatistics } from './learner.ts';
import { type TokenBatch, countTargets, tokenBatch } from './model/token-batch.ts';
import { ResidentPolicy, type Trainee, disposeTrainee, trainedPart } from './resident-policy.ts';

/** An update without a single token to learn from: nothing would be written that differs. */
export class NothingToTrain extends Error {
  override readonly name = 'NothingToTrain';
}

type Algorithm = UpdateRequest['algorithm'];

/** One optimizer step: micro-batches, and the number of tokens that its mean is over. */
interface Minibatch {
  readonly micro: readonly (readonly Datum[])[];
  readonly tokens: number;
}

function plan(request: UpdateRequest): Minibatch[][] {
  const { epochs, minibatches, microBatchTokens } = request.algorithm;
  const useful = request.data.filter((datum) => countTargets(datum) > 0);
  if (useful.length === 0)
    throw new NothingToTrain(`the ${request.data.length} sequences for ${request.toDir} have no token to train`);
  return Array.from({ length: epochs }, (_, epoch) => {
    const order = shuffled(useful.length, `update ${request.toVersion} epoch ${epoch}`);
    const data = order.flatMap((i) => useful[i] ?? []);
    return split(data, minibatches).map((part) => ({
      micro: microBatches(part, microBatchTokens),
      tokens: part.reduce((sum, datum) => sum + countTargets(datum), 0),
    }));
  });
}

/** Sums over the passes of an update. */
class Tally {
  loss = 0;
  kl = 0;
  clipped = 0;
  tokens = 0;
  entropy = 0;
  entropyTokens = 0;
  drift = 0;
  driftMax = 0;
  driftTokens = 0;
  gradNorm = 0;
  steps = 0;

  addDrift(logprobs: Float32Array, recorded: Float64Array): void {
    const { sum, max } = logprobDrift(logprobs, recorded);
    this.drift += sum;
    this.driftMax = Math.max(this.driftMax, max);
    this.driftTokens += logprobs.length;
  }

  addEntropies(entropies: Float32Array): void {
    this.entropy += entropies.reduce((sum, x) => sum + x, 0);
    this.entropyTokens += entropies.length;
  }

  metrics(trainedTokens: number): Omit<UpdateMetrics, 'sha256'> {
    return {
      loss: this.loss / this.tokens,
      kl: this.kl / this.tokens,
      entropy: this.entropy / this.entropyTokens,
      gradNorm: this.gradNorm / this.steps,
      clipFraction: this.clipped / this.tokens,
      trainedTokens,
      logprobDrift: { meanAbs: this.drift / this.driftTokens, maxAbs: this.driftMax },
    };
  }
}

/** What the data says of each token that counts, in the batch's order. */
function perToken(data: readonly Datum[], batch: TokenBatch): { recorded: Float64Array; advantages: Float64Array } {
  const [recorded, advantages] = [new Float64Array(batch.labels.length), new Float64Array(batch.labels.length)];
  for (let i = 0; i < recorded.length; i++) {
    const datum = data[batch.rowOf[i] ?? 0];
    recorded[i] = datum?.logprobs[batch.indexOf[i] ?? 0] ?? 0;
    advantages[i] = datum?.advantage ?? 0;
  }
  return { recorded, advantages };
}

interface Pass {
  readonly algorithm: Algorithm;
  /** The first pass over each token measures entropy; those before the first step measure the drift. */
  readonly firstEpoch: boolean;
  readonly tokens: number;
}

function learnMicroBatch(learner: Learner, data: readonly Datum[], pass: Pass, tally: Tally): void {
  const batch = tokenBatch(data);
  const { recorded, advantages } = perToken(data, batch);
  learner.learn(batch, pass.firstEpoch, ({ logprobs, entropies }: TokenStatistics) => {
    const { loss, kl, clipped, gradient } = ppoLoss({ logprobs, recorded, advantages }, pass.algorithm);
    tally.loss += loss;
    tally.kl += kl;
    tally.clipped += clipped;
    tally.tokens += logprobs.length;
    if (entropies !== undefined) tally.addEntropies(entropies);
    if (tally.steps === 0) tally.addDrift(logprobs, recorded);
    return Float32Array.from(gradient, (g) => g / pass.tokens);
  });
}

async function train(
  { learner, optimizer }: Trainee,
  epochs: readonly Minibatch[][],
  algorithm: Algorithm,
  onProgress: (fraction: number) => void,
): Promise<Tally> {
  const tally = new Tally();
  const total = epochs.flat().reduce((sum, { micro }) => sum + micro.length, 0);
  let done = 0;
  for (const [epoch, minibatches] of epochs.entries()) {
    for (const { micro, tokens } of minibatches) {
      for (const data of micro) {
        learnMicroBatch(learner, data, { algorithm, firstEpoch: epoch === 0, tokens }, tally);
        onProgress(++done / total);
        // Lets the thread answer its owner between passes.
        await nextTurn();
      }
      tally.gradNorm += optimizer.apply(learner.policy.trainable, learner.gradients.flatten(learner.policy), algorithm);
      tally.steps += 1;
    }
  }
  return tally;
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
   * GRPO's update: PPO's clipped loss against the recorded log-probabilities, mean over the minibatch's tokens, AdamW.
   * `loss`, `kl` and `clipFraction` are means over all passes, `entropy` over the first epoch, `gradNorm` over the
   * steps, `logprobDrift` over the tokens of the first minibatch, before any step. Errors: `NothingToTrain`,
   * `TrainingDiverged`, those of reading `fromDir`.
   */
  async run(request: UpdateRequest, onProgress: (fraction: number) => void = () => undefined): Promise<UpdateMetrics> {
    const recorded = await readCheckpointRecord(request.toDir);
    if (recorded !== undefined) {
      onProgress(1);
      return metricsOf(recorded);
    }
    const epochs = plan(request);
    const trainee = await this.#resident.take(request.fromDir, request.lora);
    try {
      const tally = await train(trainee, epochs, request.algorithm, onProgress);
      const tokens = (epochs[0] ?? []).reduce((sum, minibatch) => sum + minibatch.tokens, 0);
      const { record, written } = await save(request, trainee, tally.metrics(tokens));
      if (written) this.#resident.keep(request.toDir, record.sha256, trainee);
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
