/** One update of a policy from rollouts: the same request writes the same weights, and a finished one trains nothing. */

import { loadAlgorithms } from './algorithms/load-module.ts';
import type { Trainer, TrainingSession } from './backend.ts';
import { type CheckpointRecord, isMadeFrom, readCheckpointRecord } from './checkpoints/checkpoint.ts';
import { type Critic, criticCheckpoint, disposeCritic } from './critic/critic.ts';
import { criticPlace } from './critic/critic-files.ts';
import { ResidentCritic } from './critic/resident-critic.ts';
import { withValues } from './critic/score.ts';
import { settingsWithCritic, trainCritic, type ValuedSequence, valuedSequences } from './critic/train-critic.ts';
import { EmbeddedTrainer } from './embedded/embedded-trainer.ts';
import type { Datum, UpdateRequest } from './engine.ts';
import type { UpdateMetrics } from '../protocol/algorithm.ts';
import { countTargets } from './model/token-batch.ts';
import { weightsDigest } from './model/weights.ts';
import { advantageMetrics, creditSamples } from './training/advantages.ts';
import { differenceMetrics, recordedDifferences, ROLLOUT_TRAIN } from './training/logprob-difference.ts';
import { passTokens } from './training/objective.ts';
import { type Minibatch, type PassSequence, planUpdate } from './training/plan.ts';
import { atTargets, type Sample } from './training/sample.ts';
import type { Scores } from './training/score.ts';
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

/** Errors: `NothingToTrain`. */
export function usefulData({ data, toDir }: Pick<UpdateRequest, 'data' | 'toDir'>): Datum[] {
  const useful = data.filter((datum) => countTargets(datum) > 0);
  if (useful.length === 0) throw new NothingToTrain(`the ${data.length} sequences for ${toDir} have no token to train`);
  return useful;
}

/** Where an update's numbers come from before its first step. */
interface Sources {
  readonly trainer: Trainer;
  readonly session: TrainingSession;
  readonly critic?: Critic | undefined;
}

/** The reference's log-probabilities, where KL needs them; its weights are in memory only while they are computed. */
async function referenceScores(
  { algorithm, referenceDir, fromDir }: UpdateRequest,
  { trainer, session }: Sources,
  useful: readonly Datum[],
  old: Scores | undefined,
): Promise<Scores | undefined> {
  if (algorithm.kl === undefined) return undefined;
  if (referenceDir === undefined) throw new NoReference(`kl in the ${algorithm.kl.in} needs a reference policy`);
  if (referenceDir === fromDir) return old ?? session.forward(useful, algorithm);
  return trainer.score(referenceDir, useful, algorithm);
}

/** Every datum with what is known of its tokens before the first step. */
async function samplesOf(request: UpdateRequest, sources: Sources, useful: readonly Datum[]): Promise<Sample[]> {
  const { algorithm, data } = request;
  const old = recomputesOld(algorithm) ? await sources.session.forward(useful, algorithm) : undefined;
  const reference = await referenceScores(request, sources, useful, old);
  return data.map((datum) => {
    const recorded = atTargets(datum, datum.logprobs);
    return {
      datum,
      count: recorded.length,
      recorded,
      old: old?.get(datum) ?? recorded,
      reference: reference?.get(datum),
    };
  });
}

/** An update as it will be made: all that needs all of its data is done. */
export interface PreparedUpdate {
  readonly epochs: ReadonlyArray<readonly Minibatch[]>;
  readonly tokens: number;
  readonly sequences: number;
  /** What the critic is trained on, where there is one. */
  readonly valued: readonly ValuedSequence[];
  readonly metrics: Readonly<Record<string, number>>;
}

/**
 * Nothing is trained here. Errors: `NothingToTrain`, `NoReference`, `NoCredit`, `NoValues`, `UnknownName`, `TooFewTokens`,
 * those of reading the reference.
 */
export async function prepareUpdate(request: UpdateRequest, sources: Sources, shards = 1): Promise<PreparedUpdate> {
  const { algorithm, toVersion } = request;
  const { critic } = sources;
  const scored = await samplesOf(request, sources, usefulData(request));
  const samples = critic === undefined ? scored : await withValues(critic.model, scored, algorithm);
  const { advantages, returns, metrics } = creditSamples(samples, algorithm);
  const valued = critic === undefined ? [] : valuedSequences(samples, returns);
  const items = samples.flatMap((sample, i) =>
    sample.count > 0 ? [{ sample, advantages: advantages[i] ?? new Float64Array(0) }] : [],
  );
  const epochs = planUpdate(items, algorithm, `update ${toVersion}`, shards);
  const tokens = items.reduce((sum, { sample }) => sum + sample.count, 0);
  const compared = recomputesOld(algorithm) ? differenceMetrics(ROLLOUT_TRAIN, recordedDifferences(samples)) : {};
  return {
    epochs,
    tokens,
    sequences: items.length,
    valued,
    metrics: { ...advantageMetrics(advantages), ...metrics, ...compared },
  };
}

/** What a pass is told beside its sequences. */
export interface PassSettings {
  readonly algorithm: Algorithm;
  readonly toVersion: number;
  /** Counted over the whole update, from 0. */
  readonly pass: number;
  readonly epoch: number;
  readonly minibatch: Pick<Minibatch, 'tokens' | 'sequences'>;
}

/** One micro-batch, and what was seen of it. */
export async function learnMicroBatch(
  session: TrainingSession,
  micro: readonly PassSequence[],
  settings: PassSettings,
  tally: Tally,
): Promise<void> {
  const { algorithm, minibatch, toVersion, pass, epoch } = settings;
  const noiseKey = `update ${toVersion} pass ${pass}`;
  const seen = await session.forwardBackward({
    sequences: micro,
    algorithm,
    minibatch,
    firstEpoch: epoch === 0,
    noiseKey,
  });
  tally.addPass(passTokens(micro), seen, seen.objective);
}

async function train(
  session: TrainingSession,
  { epochs }: PreparedUpdate,
  { algorithm, toVersion }: UpdateRequest,
  onProgress: (fraction: number) => void,
): Promise<Tally> {
  const tally = new Tally();
  const total = epochs.flat().reduce((sum, { micro }) => sum + micro.length, 0);
  let pass = 0;
  for (const [epoch, minibatches] of epochs.entries()) {
    for (const minibatch of minibatches) {
      for (const micro of minibatch.micro) {
        await learnMicroBatch(session, micro, { algorithm, toVersion, pass, epoch, minibatch }, tally);
        onProgress(++pass / total);
      }
      tally.addStep(await session.optimStep(algorithm));
    }
  }
  return tally;
}

/** Trains what was loaded, the critic first, and says what was measured. */
async function learn(
  request: UpdateRequest,
  sources: Sources,
  onProgress: (fraction: number) => void,
): Promise<Omit<UpdateMetrics, 'sha256'>> {
  const { session, critic } = sources;
  const settings = settingsWithCritic(request.algorithm);
  const prepared = await prepareUpdate(request, sources);
  const key = `update ${request.toVersion}`;
  const measured =
    critic && settings && (await trainCritic(critic, prepared.valued, settings, key, (done) => onProgress(done / 2)));
  const tally = await train(session, prepared, request, critic ? (done) => onProgress((1 + done) / 2) : onProgress);
  return tally.metrics(prepared.tokens, prepared.sequences, request.algorithm, { ...prepared.metrics, ...measured });
}

/** What the training that wrote a checkpoint reported. */
export function metricsOf(record: CheckpointRecord): UpdateMetrics {
  return { ...(record.metrics as Omit<UpdateMetrics, 'sha256'>), sha256: record.sha256 };
}

/** Updates by one trainer, by the embedded one unless another is given; a critic is trained in this process. */
export class Updater {
  readonly #trainer: Trainer;
  readonly #critics: ResidentCritic;

  constructor(trainer: Trainer = new EmbeddedTrainer(), critics = new ResidentCritic()) {
    this.#trainer = trainer;
    this.#critics = critics;
  }

  /**
   * Advantages by the estimator, then the loss by its name, scaled by its reduction, and AdamW. `loss` is the mean over the
   * optimizer's steps; `kl`, to the policy that sampled, and `clipFraction` are means over all passes, `entropy` over the
   * first epoch, `gradNorm` over the steps, `logprobDrift` over the tokens of the first minibatch, before any step.
   * Errors: `NothingToTrain`, `NoReference`, `NoCredit`, `NoValues`, `UnknownName`, `LossRefused`, `TooFewTokens`, `TrainingDiverged`,
   * those of reading `fromDir`.
   */
  async run(request: UpdateRequest, onProgress: (fraction: number) => void = () => undefined): Promise<UpdateMetrics> {
    const recorded = await readCheckpointRecord(request.toDir);
    if (recorded !== undefined && isMadeFrom(recorded, request.input)) {
      onProgress(1);
      return metricsOf(recorded);
    }
    usefulData(request);
    await loadAlgorithms(request.algorithm.module);
    const { fromDir, lora } = request;
    const session = await this.#trainer.loadState({ dir: fromDir, lora, optimizer: true });
    try {
      const critic = await this.#critic(request);
      const record = await this.#learnAndSave(request, { trainer: this.#trainer, session, critic }, onProgress);
      return metricsOf(record);
    } finally {
      await session.release();
    }
  }

  async #critic(request: UpdateRequest): Promise<Critic | undefined> {
    const place = criticPlace(request);
    if (place !== undefined) return (await this.#critics.take(place, true)).critic;
    this.#critics.clear();
    return undefined;
  }

  /** A critic that is not the one that was written is given up. */
  async #settle(request: UpdateRequest, critic: Critic, isWritten: boolean): Promise<void> {
    const place = isWritten ? criticPlace({ ...request, fromDir: request.toDir }) : undefined;
    if (place === undefined) disposeCritic(critic);
    else await this.#critics.keepWritten(place, critic);
  }

  async #learnAndSave(
    request: UpdateRequest,
    sources: Sources,
    onProgress: (fraction: number) => void,
  ): Promise<CheckpointRecord> {
    const { session, critic } = sources;
    const { toDir: dir, toVersion: version, input } = request;
    let isWritten = false;
    try {
      const metrics = await learn(request, sources, onProgress);
      const beside = critic && criticCheckpoint(critic, version);
      const record = await session.saveState({ dir, version, metrics, critic: beside, input });
      isWritten = beside !== undefined && record.critic?.sha256 === weightsDigest(beside.weights);
      await session.publish({ dir, version });
      return record;
    } finally {
      if (critic !== undefined) await this.#settle(request, critic, isWritten);
    }
  }
}
