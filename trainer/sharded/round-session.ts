/**
 * One model at one round of a sharded update: it computes the gradients of shards, and takes the step along their sum.
 */

/** A shard's gradient [trainable size], and its metrics. */
export interface Share<Tally> {
  readonly gradient: Float32Array;
  readonly tally: Tally;
}

export type Progress = (fraction: number) => void;

export interface RoundSession<Tally = unknown> {
  /** Errors: those of a pass. */
  forwardBackward(shard: number, onProgress: Progress): Promise<Share<Tally>>;
  /**
   * Takes the step along the sum of the shards, and saves the round's result. `seen` are the shards' metrics, in order
   * of the shards. Errors: `PlanLost`, `TrainingDiverged`, `CheckpointTorn`.
   */
  optimStep(sum: Float32Array, seen: readonly Tally[]): Promise<void>;
  /** Frees the model; changes that were not saved are lost. */
  release(): Promise<void>;
}
