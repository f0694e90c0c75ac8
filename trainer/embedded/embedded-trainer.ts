/** The embedded engine as a `Trainer`: it trains one policy at a time, in TensorFlow's thread. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { AdamW, AdamWSettings } from '../optimizer.ts';
import type { ShardSession, StateToLoad, StateToSave, Trainer } from '../backend.ts';
import { type CheckpointRecord, readCheckpointRecord, writeCheckpoint } from '../checkpoints/checkpoint.ts';
import type { Datum } from '../update-request.ts';
import { batchOf } from '../model/packed-batch.ts';
import type { TokenSequence } from '../model/token-batch.ts';
import type { Batching, Pass, Scores, TokenStatistics } from '../passes.ts';
import { stampOf } from '../checkpoints/policy-files.ts';
import { disposeTrainee, type Resident, ResidentPolicy, trainedPart } from '../resident-policy.ts';
import { tf } from '../tensorflow.ts';
import { scoresOf } from '../training/score.ts';
import { CheckpointTorn, readVerifiedConfig, readVerifiedPolicy } from '../checkpoints/verified-checkpoint.ts';
import { Learner } from '../learner.ts';

class EmbeddedSession implements ShardSession {
  readonly #home: ResidentPolicy;
  readonly #resident: Resident;
  /** The saved state that memory equals; `undefined` if there is none. */
  #equals: Pick<StateToLoad, 'dir' | 'lora'> | undefined;
  readonly #origin: StateToLoad;
  #given: Float32Array | undefined;

  constructor(home: ResidentPolicy, resident: Resident, origin: StateToLoad) {
    this.#home = home;
    this.#resident = resident;
    this.#origin = origin;
    this.#equals = origin;
  }

  forward(data: readonly Datum[], batching: Batching): Promise<Scores> {
    return scoresOf(this.#resident.learner, data, batching);
  }

  async forwardBackward(pass: Pass<TokenSequence>): Promise<TokenStatistics> {
    const { sequences, algorithm, entropies: wanted, entropyWeight, objective } = pass;
    const equals = this.#equals;
    this.#equals = undefined;
    const isTrained = entropyWeight > 0;
    const { promise, resolve } = Promise.withResolvers<TokenStatistics>();
    const { learner } = this.#resident;
    learner.gradientCheckpointing = algorithm.gradientCheckpointing ?? false;
    learner.forwardBackward(batchOf(sequences, algorithm), isTrained ? 'trained' : wanted, (seen) => {
      const slope = Float32Array.from(objective(seen.logprobs).gradient);
      resolve(seen);
      return isTrained
        ? { logprobs: slope, entropies: new Float32Array(slope.length).fill(-entropyWeight) }
        : { logprobs: slope };
    });
    this.#equals = equals;
    // Lets the thread answer its owner's messages between passes.
    await nextTurn();
    return promise;
  }

  async takeGradient(): Promise<Float32Array> {
    const { gradients, policy } = this.#resident.learner;
    const flat = gradients.flatten(policy);
    const values = flat.dataSync() as Float32Array;
    flat.dispose();
    return values;
  }

  setGradient(sum: Float32Array): void {
    this.#given = sum;
  }

  async optimStep(settings: AdamWSettings): Promise<number> {
    const { policy, gradients } = this.#resident.learner;
    const optimizer = this.#optimizer();
    this.#equals = undefined;
    const gradient = this.#given === undefined ? gradients.flatten(policy) : tf.tensor1d(this.#given);
    this.#given = undefined;
    return optimizer.apply(policy.trainable, gradient, settings);
  }

  async saveState({ dir, version, metrics, critic, input }: StateToSave): Promise<CheckpointRecord> {
    const { learner } = this.#resident;
    const optimizer = this.#optimizer();
    const { record, written } = await writeCheckpoint(dir, {
      ...trainedPart(learner),
      optimizer: { steps: optimizer.steps, moments: optimizer.save(learner.policy.trainable.layout) },
      step: version,
      version,
      fromDir: this.#origin.dir,
      critic,
      input,
      metrics,
    });
    if (!written) return record;
    this.#equals = { dir, lora: this.#origin.lora };
    this.#resident.stamp = await stampOf(dir);
    return record;
  }

  /** A saved state is a policy directory, which others read by its name: only its version is checked. */
  async publish({ dir, version }: Pick<StateToSave, 'dir' | 'version'>): Promise<void> {
    const found = (await readCheckpointRecord(dir))?.version;
    if (found !== version)
      throw new CheckpointTorn(
        dir,
        `it has ${found === undefined ? 'no record' : `version ${found}`}, not version ${version}`,
      );
  }

  async release(): Promise<void> {
    this.#resident.learner.gradients.clear();
    if (this.#equals === undefined) disposeTrainee(this.#resident);
    else this.#home.keep(this.#equals, this.#resident);
  }

  #optimizer(): AdamW {
    const { optimizer } = this.#resident;
    if (optimizer === undefined) throw new Error(`${this.#origin.dir} was loaded without its optimizer`);
    return optimizer;
  }
}

/** Scores by the policy in `dir`, which is in memory only during the call. Errors: those of reading it. */
async function scoresOfPolicy(dir: string, data: readonly Datum[], batching: Batching): Promise<Scores> {
  const { weights, adapter } = await readVerifiedPolicy(dir);
  const learner = new Learner(await readVerifiedConfig(dir), weights, adapter);
  try {
    return await scoresOf(learner, data, batching);
  } finally {
    learner.dispose();
  }
}

export class EmbeddedTrainer implements Trainer<ShardSession> {
  readonly #resident = new ResidentPolicy();

  async loadState(state: StateToLoad): Promise<ShardSession> {
    return new EmbeddedSession(this.#resident, await this.#resident.take(state), state);
  }

  score(dir: string, data: readonly Datum[], batching: Batching): Promise<Scores> {
    return scoresOfPolicy(dir, data, batching);
  }

  /** Number of policies that were read from their directories so far. */
  get loads(): number {
    return this.#resident.loads;
  }
}
