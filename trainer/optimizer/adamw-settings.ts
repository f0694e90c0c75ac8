/** What AdamW is given. Apart from the optimizer: the library's declarations name it, and know no engine. */

export interface AdamWSettings {
  readonly learningRate: number;
  readonly betas: readonly [number, number];
  readonly epsilon: number;
  /** On all parameters. */
  readonly weightDecay: number;
  /** Larger gradients are scaled down to this norm; `null`: none is. */
  readonly maxGradNorm: number | null;
}
