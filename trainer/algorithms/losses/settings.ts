/** Settings of the policy losses, with SkyRL's values as defaults; each loss reads its own and the clip range alone. */

import type { LossSettings } from '../../../protocol/algorithm.ts';

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
