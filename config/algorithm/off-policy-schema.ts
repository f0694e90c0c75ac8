/** The schema of `algorithm.offPolicyCorrection`, with SkyRL's names: each bound belongs to one kind of correction. */

import { z } from 'zod';
import { SEQUENCE_MASKS, TIS_RATIOS } from '../../protocol/algorithm.ts';
import { type Rule, withRules } from './conditional-settings.ts';

const positive = z.number().positive();

/** `{}` means truncated importance sampling by token. */
export const offPolicyCorrectionSchema = withRules(
  z.strictObject({
    tisRatioType: z.enum(TIS_RATIOS).optional(),
    tokenTisRatioClipHigh: positive.optional(),
    sequenceTisRatioClipHigh: positive.optional(),
    sequenceMaskMetric: z.enum(SEQUENCE_MASKS).default('none'),
    geoMaskLow: positive.optional(),
    geoMaskHigh: positive.optional(),
    productMaskLow: positive.optional(),
    productMaskHigh: positive.optional(),
    outlierTokenIsThresholdLow: positive.optional(),
    outlierTokenIsThresholdHigh: positive.optional(),
    tokenMaskIsThresholdLow: positive.optional(),
    tokenMaskIsThresholdHigh: positive.optional(),
  }),
  [
    // Without any setting, the usual correction applies.
    { field: 'tisRatioType', applies: () => true, fill: (s) => (isMasking(s) ? 'none' : 'token'), remedy: '' },
    {
      field: 'tokenTisRatioClipHigh',
      applies: (s) => s['tisRatioType'] === 'token',
      fill: () => 2,
      remedy: 'leave it out, or give tisRatioType: token',
    },
    {
      field: 'sequenceTisRatioClipHigh',
      applies: (s) => s['tisRatioType'] === 'sequence',
      fill: () => 5,
      remedy: 'leave it out, or give tisRatioType: sequence',
    },
    ...ofMask('geometric', { geoMaskLow: 0.99, geoMaskHigh: 1.01 }),
    ...ofMask('product', { productMaskLow: 0.5, productMaskHigh: 2 }),
    {
      field: 'tokenMaskIsThresholdLow',
      applies: (s) => s['tokenMaskIsThresholdHigh'] !== undefined,
      remedy: 'give tokenMaskIsThresholdHigh too, or leave it out: a token mask has two bounds',
    },
    {
      field: 'tokenMaskIsThresholdHigh',
      applies: (s) => s['tokenMaskIsThresholdLow'] !== undefined,
      remedy: 'give tokenMaskIsThresholdLow too, or leave it out: a token mask has two bounds',
    },
  ],
);

function isMasking(settings: Readonly<Record<string, unknown>>): boolean {
  const { sequenceMaskMetric, ...thresholds } = settings;
  return (
    sequenceMaskMetric !== 'none' ||
    Object.entries(thresholds).some(([name, value]) => name.includes('Threshold') && value !== undefined)
  );
}

function ofMask(metric: string, bounds: Readonly<Record<string, number>>): Rule[] {
  return Object.entries(bounds).map(([field, value]) => ({
    field,
    applies: (s) => s['sequenceMaskMetric'] === metric,
    fill: () => value,
    remedy: `leave it out, or give sequenceMaskMetric: ${metric}`,
  }));
}
