/** What the masks and the weights of off-policy correction are made of. */

import type { Masked } from '../rows.ts';

/** Tokens with the ratio of the old policy to the one that sampled. */
export interface RatioTokens extends Masked {
  /** old − rollout. */
  readonly logRatios: Float64Array;
  /** Its exponential, clamped to e^±20. */
  readonly ratios: Float64Array;
}
