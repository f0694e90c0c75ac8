/**
 * The seam between Longhaul and what holds its policies, in Tinker's words: whoever implements it can sample and train.
 * An update is written in these words alone, so that nothing of it knows which backend it runs on.
 */

import type { AdamWSettings } from './optimizer.ts';
import type { Checkpoint, CheckpointRecord } from './checkpoints/checkpoint.ts';
import type { Datum } from './update-request.ts';
import type { GenerateRequest, GenerateResult } from './generate-request.ts';
import type { GenerateCost } from '../protocol/sampling.ts';
import type { NewLora, UpdateSettings } from '../protocol/algorithm.ts';
import type { TokenStatistics } from './learner.ts';
import type { Batching } from './model/packed-batch.ts';
import type { Objective } from './training/objective.ts';
import type { Minibatch, PassSequence } from './training/plan.ts';
import type { Scores } from './training/score.ts';

/** A saved state by its name: for the embedded engine a policy directory. */
export interface StateToLoad {
  readonly dir: string;
  /** Trains an adapter: the state's own, or this new one beside it. */
  readonly lora?: NewLora | undefined;
  /** Whether `optimStep` follows: without, the moments need not be read. */
  readonly optimizer: boolean;
}

export interface StateToSave {
  /** Its name; where a state of that name is there already, that one stands. */
  readonly dir: string;
  readonly version: number;
  /** Kept in the state's record, as the name of what it was made from. */
  readonly input?: string | undefined;
  /** Kept in the state's record. */
  readonly metrics: unknown;
  /** Written beside it, complete or not at all with it. */
  readonly critic?: Checkpoint | undefined;
}

/** Sequences whose gradient is computed at once, and the loss that it is of. */
export interface Pass {
  readonly sequences: readonly PassSequence[];
  readonly algorithm: UpdateSettings;
  readonly minibatch: Pick<Minibatch, 'tokens' | 'sequences'>;
  /** The first pass over each token measures entropy. */
  readonly firstEpoch: boolean;
  /** Names the noise of losses that draw. */
  readonly noiseKey: string;
}

/** What a pass saw, token by token, and the loss that it was learnt by. */
export interface PassResult extends TokenStatistics {
  readonly objective: Omit<Objective, 'gradient'>;
}

/** One policy in training. What it did is nobody else's before `saveState`; `release` gives up what was not saved. */
export interface TrainingSession {
  /** Log-probabilities of the tokens that count; nothing is learnt. */
  forward(data: readonly Datum[], batching: Batching): Promise<Scores>;
  /** Adds the pass's gradient to what the next `optimStep` takes. Errors: `LossRefused`, `UnknownName`. */
  forwardBackward(pass: Pass): Promise<PassResult>;
  /** One step along the gradients since the last one; returns their norm before clipping. Errors: `TrainingDiverged`. */
  optimStep(settings: AdamWSettings): Promise<number>;
  /** Weights and optimizer, complete or not at all. */
  saveState(state: StateToSave): Promise<CheckpointRecord>;
  /** From then on `sample` takes the state that was saved under this name. */
  publish(state: Pick<StateToSave, 'dir' | 'version'>): Promise<void>;
  release(): Promise<void>;
}

export interface Trainer<Session extends TrainingSession = TrainingSession> {
  /** Errors: those of reading it. */
  loadState(state: StateToLoad): Promise<Session>;
  /** Log-probabilities by a policy that is not in training, such as the reference. Errors: those of reading it. */
  score(dir: string, data: readonly Datum[], batching: Batching): Promise<Scores>;
}

export interface Backend<Session extends TrainingSession = TrainingSession> extends Trainer<Session> {
  sample(request: GenerateRequest, signal: AbortSignal, onCost?: (cost: GenerateCost) => void): Promise<GenerateResult>;
}

/** A session whose gradients can leave it, so that several backends share an optimizer step. */
export interface ShardSession extends TrainingSession {
  /** The sum since the last step [trainable size]; the session's own is zero again. */
  takeGradient(): Promise<Float32Array>;
  /** What the next `optimStep` takes in place of the session's own gradients. */
  setGradient(sum: Float32Array): void;
}
