/** How a critic learns beside its policy. Epochs and the size of a pass are the policy's. */

import type { AdamWSettings } from '../optimizer/adamw-settings.ts';

/** `learningRate` and the rest are AdamW's, of an optimizer of the critic's own. */
export interface CriticSettings extends AdamWSettings {
  /** Optimizer steps of an epoch; left out: as many as the policy's. */
  readonly minibatches?: number;
}

/** SkyRL's `value_clip`. */
export const DEFAULT_VALUE_CLIP = 0.2;
