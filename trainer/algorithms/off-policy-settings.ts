/**
 * Settings of the correction for data that another policy sampled, or the same policy with different arithmetic. The
 * defaults are SkyRL's.
 */

import { TIS_RATIOS, SEQUENCE_MASKS, type OffPolicySettings } from '../../protocol/algorithm.ts';

export const NO_CORRECTION: OffPolicySettings = {
  tisRatioType: 'none',
  tokenTisRatioClipHigh: 2,
  sequenceTisRatioClipHigh: 5,
  sequenceMaskMetric: 'none',
  geoMaskLow: 0.99,
  geoMaskHigh: 1.01,
  productMaskLow: 0.5,
  productMaskHigh: 2,
};

export const masksOutliers = ({
  outlierTokenIsThresholdLow,
  outlierTokenIsThresholdHigh,
}: OffPolicySettings): boolean => outlierTokenIsThresholdLow !== undefined || outlierTokenIsThresholdHigh !== undefined;

export const masksTokens = ({ tokenMaskIsThresholdLow, tokenMaskIsThresholdHigh }: OffPolicySettings): boolean =>
  tokenMaskIsThresholdLow !== undefined && tokenMaskIsThresholdHigh !== undefined;

/** Unknown kind of correction. */
export class BadCorrection extends Error {
  override readonly name = 'BadCorrection';
}

/** Errors: `BadCorrection` for an unknown kind. */
export function checkCorrection({ tisRatioType, sequenceMaskMetric }: OffPolicySettings): void {
  const refuse = (field: string, value: string, known: readonly string[]): void => {
    if (!known.includes(value))
      throw new BadCorrection(`${field}: ${value} cannot be used; give one of ${known.join(', ')}`);
  };
  refuse('tisRatioType', tisRatioType, TIS_RATIOS);
  refuse('sequenceMaskMetric', sequenceMaskMetric, SEQUENCE_MASKS);
}

export const isCorrecting = (settings: OffPolicySettings): boolean =>
  settings.tisRatioType !== 'none' ||
  settings.sequenceMaskMetric !== 'none' ||
  masksOutliers(settings) ||
  masksTokens(settings);
