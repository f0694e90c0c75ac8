/** Settings of the policy losses, with SkyRL's values as defaults; each loss reads its own and the clip range alone. */

import type { OffPolicySettings } from '../off-policy/settings.ts';

export interface LossSettings {
  /** The ratio is clipped to 1 − clipLow … 1 + clipHigh. */
  readonly clipLow: number;
  readonly clipHigh: number;
  /** `dual_clip`: the largest ratio that counts against a token whose advantage is negative. */
  readonly clipRatioC: number;
  readonly cispo: {
    readonly clipLow: number;
    readonly clipHigh: number;
    /** What the ratio is taken against. */
    readonly anchor: 'old' | 'rollout';
  };
  readonly sapo: { readonly tauPositive: number; readonly tauNegative: number };
  readonly dppo: {
    readonly divergence: 'binary_tv' | 'binary_kl';
    readonly deltaLow: number;
    readonly deltaHigh: number;
  };
  /** Share of the tokens with the largest covariance, and the weight of their KL. */
  readonly klCov: { readonly fraction: number; readonly coefficient: number };
  /** Share of all tokens that are left out, drawn among those whose covariance lies between the bounds. */
  readonly clipCov: { readonly ratio: number; readonly lowerBound: number; readonly upperBound: number };
  /** Absent: no correction. */
  readonly offPolicyCorrection?: OffPolicySettings | undefined;
  /** Names the draws of this pass (`clip_cov`): the same name, the same draws. */
  readonly noiseKey?: string | undefined;
}

export const DEFAULT_LOSS_SETTINGS: LossSettings = {
  clipLow: 0.2,
  clipHigh: 0.2,
  clipRatioC: 3,
  cispo: { clipLow: 1, clipHigh: 4, anchor: 'old' },
  sapo: { tauPositive: 1, tauNegative: 1.05 },
  dppo: { divergence: 'binary_tv', deltaLow: 0.2, deltaHigh: 0.2 },
  klCov: { fraction: 0.2, coefficient: 1 },
  clipCov: { ratio: 0.0002, lowerBound: 1, upperBound: 5 },
};
