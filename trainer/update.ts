/**
 * One update of a policy from rollouts. The same request writes the same weights; a finished update is not repeated.
 */

import { usefulData, type Sources, prepareUpdate } from './training/prepare-update.ts';
import { importCached } from '../modules/import-bundle.ts';
import type { Trainer, TrainingSession } from './backend.ts';
import { type CheckpointRecord, isMadeFrom, readCheckpointRecord } from './checkpoints/checkpoint.ts';
import { type Critic, criticCheckpoint, disposeCritic } from './critic/critic.ts';
import { criticPlace } from './critic/critic-files.ts';
import { ResidentCritic } from './critic/resident-critic.ts';
import { settingsWithCritic, trainCritic } from './critic/train-critic.ts';
import { EmbeddedTrainer } from './embedded/embedded-trainer.ts';
import type { UpdateRequest } from './update-request.ts';
import type { UpdateMetrics } from '../protocol/algorithm.ts';
import { weightsDigest } from './model/weights.ts';
import { trainPolicy } from './training/train-policy.ts';

interface UpdateSources extends Sources {
  readonly session: TrainingSession;
}

/** Trains the critic, if there is one, then the policy. Returns the metrics. */
async function trainAll(
  request: UpdateRequest,
  sources: UpdateSources,
  onProgress: (fraction: number) => void,
): Promise<Omit<UpdateMetrics, 'sha256'>> {
  const { session, critic } = sources;
  const settings = settingsWithCritic(request.algorithm);
  const prepared = await prepareUpdate(request, sources);
  const key = `update ${request.toVersion}`;
  const measured =
    critic && settings && (await trainCritic(critic, prepared.valued, settings, key, (done) => onProgress(done / 2)));
  const tally = await trainPolicy(
    session,
    prepared,
    request,
    critic ? (done) => onProgress((1 + done) / 2) : onProgress,
  );
  return tally.metrics(prepared.tokens, prepared.sequences, request.algorithm, { ...prepared.metrics, ...measured });
}

/** The metrics of the update that wrote a checkpoint. */
export function metricsOf(record: CheckpointRecord): UpdateMetrics {
  return { ...(record.metrics as Omit<UpdateMetrics, 'sha256'>), sha256: record.sha256 };
}

/** Updates by one trainer, the embedded one by default. A critic is trained in this process. */
export class Updater {
  readonly #trainer: Trainer;
  readonly #critics: ResidentCritic;

  constructor(trainer: Trainer = new EmbeddedTrainer(), critics = new ResidentCritic()) {
    this.#trainer = trainer;
    this.#critics = critics;
  }

  /**
   * Computes advantages, then trains by the configured loss and reduction with AdamW. Metrics: `loss` is the mean over
   * optimizer steps; `kl` (to the sampling policy) and `clipFraction` are means over all passes, `entropy` over the
   * first epoch, `gradNorm` over the steps, `logprobDrift` over the tokens of the first minibatch, before any step.
   * Errors: `NothingToTrain`, `NoReference`, `NoCredit`, `NoValues`, `UnknownName`, `LossRefused`, `TooFewTokens`,
   * `TrainingDiverged`, those of reading `fromDir`.
   */
  async run(request: UpdateRequest, onProgress: (fraction: number) => void = () => undefined): Promise<UpdateMetrics> {
    const recorded = await readCheckpointRecord(request.toDir);
    if (recorded !== undefined && isMadeFrom(recorded, request.input)) {
      onProgress(1);
      return metricsOf(recorded);
    }
    usefulData(request);
    const { modules } = request.algorithm;
    if (modules !== undefined) await importCached(modules);
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

  /** Keeps the critic in memory if it was written; otherwise frees it. */
  async #settle(request: UpdateRequest, critic: Critic, isWritten: boolean): Promise<void> {
    const place = isWritten ? criticPlace({ ...request, fromDir: request.toDir }) : undefined;
    if (place === undefined) disposeCritic(critic);
    else await this.#critics.keepWritten(place, critic);
  }

  async #learnAndSave(
    request: UpdateRequest,
    sources: UpdateSources,
    onProgress: (fraction: number) => void,
  ): Promise<CheckpointRecord> {
    const { session, critic } = sources;
    const { toDir: dir, toVersion: version, input } = request;
    let isWritten = false;
    try {
      const metrics = await trainAll(request, sources, onProgress);
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
