/** The schemas of settings that belong to one loss only, with SkyRL's defaults. */

import { z } from 'zod';

const positive = z.number().positive();
const share = z.number().min(0).max(1);

export const cispo = z.strictObject({
  clipLow: share.default(1),
  clipHigh: z.number().min(0).default(4),
  anchor: z.enum(['old', 'rollout']).default('old'),
});
export const sapo = z.strictObject({ tauPositive: positive.default(1), tauNegative: positive.default(1.05) });
export const dppo = z.strictObject({
  divergence: z.enum(['binary_tv', 'binary_kl']).default('binary_tv'),
  deltaLow: z.number().min(0).default(0.2),
  deltaHigh: z.number().min(0).default(0.2),
});
export const klCov = z.strictObject({ fraction: share.default(0.2), coefficient: z.number().min(0).default(1) });
export const clipCov = z.strictObject({
  ratio: share.default(0.0002),
  lowerBound: z.number().default(1),
  upperBound: z.number().default(5),
});
