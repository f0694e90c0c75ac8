/**
 * A policy in training, with Tinker's names. The code of an update uses this interface alone, so that it runs on any
 * backend: on the embedded engine, and on those that modules define (backends/).
 */

import type { AdamWSettings } from '../protocol/algorithm.ts';
import type { Batching, Pass, Scores, TokenStatistics } from './passes.ts';
import type { Checkpoint, CheckpointRecord } from './checkpoints/checkpoint.ts';
import type { Datum } from './update-request.ts';
import type { NewLora } from '../protocol/algorithm.ts';

/** A saved state. For the embedded engine, `dir` is a policy directory. */
export interface StateToLoad {
  readonly dir: string;
  /** Train an adapter: the state's own, or a new one with these settings. */
  readonly lora?: NewLora | undefined;
  /** True if `optimStep` will be called; otherwise the moments are not read. */
  readonly optimizer: boolean;
}

export interface StateToSave {
  /** The state's name. An existing state of that name is not replaced. */
  readonly dir: string;
  readonly version: number;
  /** Stored in the state's record; names what the state was made from. */
  readonly input?: string | undefined;
  /** Stored in the state's record. */
  readonly metrics: unknown;
  /** Written with the state: both are complete, or neither is written. */
  readonly critic?: Checkpoint | undefined;
}

/**
 * One policy in training. Changes are visible to others only after `saveState`; `release` drops changes that were not
 * saved.
 */
export interface TrainingSession {
  /** Log-probabilities of the tokens that count, without training. */
  forward(data: readonly Datum[], batching: Batching): Promise<Scores>;
  /** Adds the pass's gradient to the sum that the next `optimStep` uses. Errors: `LossRefused`, `UnknownName`. */
  forwardBackward(pass: Pass): Promise<TokenStatistics>;
  /**
   * One step along the gradients since the last step; returns their norm before clipping. Errors: `TrainingDiverged`.
   */
  optimStep(settings: AdamWSettings): Promise<number>;
  /** Writes weights and optimizer, complete or not at all. */
  saveState(state: StateToSave): Promise<CheckpointRecord>;
  /** From now on `sample` uses the state that was saved under this name. */
  publish(state: Pick<StateToSave, 'dir' | 'version'>): Promise<void>;
  release(): Promise<void>;
}

export interface Trainer<Session extends TrainingSession = TrainingSession> {
  /** Errors: those of reading it. */
  loadState(state: StateToLoad): Promise<Session>;
  /** Log-probabilities by a policy that is not in training, such as the reference. Errors: those of reading it. */
  score(dir: string, data: readonly Datum[], batching: Batching): Promise<Scores>;
}

/** A session whose gradients can leave it, so that several backends share an optimizer step. */
export interface ShardSession extends TrainingSession {
  /** Returns the sum of the gradients since the last step [trainable size], and resets the session's sum to zero. */
  takeGradient(): Promise<Float32Array>;
  /** Sets the gradient that the next `optimStep` uses instead of the session's own. */
  setGradient(sum: Float32Array): void;
}
