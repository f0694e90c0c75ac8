/** The schemas of settings that belong to one loss only, with the defaults of updates. */

import { z } from 'zod';
import { DEFAULT_LOSS_SETTINGS as DEFAULTS } from '../../trainer/training/settings.ts';

const positive = z.number().positive();
const share = z.number().min(0).max(1);

export const cispo = z.strictObject({
  clipLow: share.default(DEFAULTS.cispo.clipLow),
  clipHigh: z.number().min(0).default(DEFAULTS.cispo.clipHigh),
  anchor: z.enum(['old', 'rollout']).default(DEFAULTS.cispo.anchor),
});
export const sapo = z.strictObject({
  tauPositive: positive.default(DEFAULTS.sapo.tauPositive),
  tauNegative: positive.default(DEFAULTS.sapo.tauNegative),
});
export const dppo = z.strictObject({
  divergence: z.enum(['binary_tv', 'binary_kl']).default(DEFAULTS.dppo.divergence),
  deltaLow: z.number().min(0).default(DEFAULTS.dppo.deltaLow),
  deltaHigh: z.number().min(0).default(DEFAULTS.dppo.deltaHigh),
});
export const klCov = z.strictObject({
  fraction: share.default(DEFAULTS.klCov.fraction),
  coefficient: z.number().min(0).default(DEFAULTS.klCov.coefficient),
});
export const clipCov = z.strictObject({
  ratio: share.default(DEFAULTS.clipCov.ratio),
  lowerBound: z.number().default(DEFAULTS.clipCov.lowerBound),
  upperBound: z.number().default(DEFAULTS.clipCov.upperBound),
});
