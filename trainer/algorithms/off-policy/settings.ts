/** What is done about data that another policy sampled, or the same one with other arithmetic; SkyRL's defaults. */

export interface OffPolicySettings {
  /** Truncated importance sampling: the loss is weighted by the ratio of each token, or of the whole sequence. */
  readonly tisRatioType: (typeof TIS_RATIOS)[number];
  readonly tokenTisRatioClipHigh: number;
  readonly sequenceTisRatioClipHigh: number;
  /** Sequences whose ratio (geometric mean, or product) is outside of its range are left out. */
  readonly sequenceMaskMetric: (typeof SEQUENCE_MASKS)[number];
  readonly geoMaskLow: number;
  readonly geoMaskHigh: number;
  readonly productMaskLow: number;
  readonly productMaskHigh: number;
  /** A sequence with a single token outside is left out; either bound may be absent. */
  readonly outlierTokenIsThresholdLow?: number | undefined;
  readonly outlierTokenIsThresholdHigh?: number | undefined;
  /** Tokens outside are left out; in force where both are given. */
  readonly tokenMaskIsThresholdLow?: number | undefined;
  readonly tokenMaskIsThresholdHigh?: number | undefined;
}

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

/** A kind of correction that there is not. */
export class BadCorrection extends Error {
  override readonly name = 'BadCorrection';
}

export const TIS_RATIOS = ['none', 'token', 'sequence'] as const;
export const SEQUENCE_MASKS = ['none', 'geometric', 'product'] as const;

/** Errors: `BadCorrection` for a kind that there is not. */
export function checkCorrection({ tisRatioType, sequenceMaskMetric }: OffPolicySettings): void {
  const refuse = (field: string, value: string, known: readonly string[]): void => {
    if (!known.includes(value))
      throw new BadCorrection(`${field}: ${value} cannot be used; one of ${known.join(', ')}`);
  };
  refuse('tisRatioType', tisRatioType, TIS_RATIOS);
  refuse('sequenceMaskMetric', sequenceMaskMetric, SEQUENCE_MASKS);
}

export const isCorrecting = (settings: OffPolicySettings): boolean =>
  settings.tisRatioType !== 'none' ||
  settings.sequenceMaskMetric !== 'none' ||
  masksOutliers(settings) ||
  masksTokens(settings);
