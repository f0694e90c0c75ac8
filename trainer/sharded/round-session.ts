/** One model at one round of an update in shards: it makes gradients of shares, and takes the step along their sum. */

/** The gradient of a share [trainable size], and what was measured of it. */
export interface Share<Tally> {
  readonly gradient: Float32Array;
  readonly tally: Tally;
}

export type Progress = (fraction: number) => void;

export interface RoundSession<Tally = unknown> {
  /** Errors: those of a pass. */
  forwardBackward(shard: number, onProgress: Progress): Promise<Share<Tally>>;
  /**
   * Takes the step along the sum of the shares, and saves what the round leaves; `seen` is what they measured, in their
   * order. Errors: `PlanLost`, `TrainingDiverged`, `CheckpointTorn`.
   */
  optimStep(sum: Float32Array, seen: readonly Tally[]): Promise<void>;
  /** Gives up what was not saved. */
  release(): Promise<void>;
}
