/** What is done about data that another policy sampled, or the same one with other arithmetic; SkyRL's defaults. */

export interface OffPolicySettings {
  /** Truncated importance sampling: the loss is weighted by the ratio of each token, or of the whole sequence. */
  readonly tisRatio: (typeof TIS_RATIOS)[number];
  readonly tokenTisCap: number;
  readonly sequenceTisCap: number;
  /** Sequences whose ratio (geometric mean, or product) is outside of its range are left out. */
  readonly sequenceMask: (typeof SEQUENCE_MASKS)[number];
  readonly geometricLow: number;
  readonly geometricHigh: number;
  readonly productLow: number;
  readonly productHigh: number;
  /** A sequence with a single token outside is left out; either bound may be absent. */
  readonly outlierLow?: number | undefined;
  readonly outlierHigh?: number | undefined;
  /** Tokens outside are left out; in force where both are given. */
  readonly tokenMaskLow?: number | undefined;
  readonly tokenMaskHigh?: number | undefined;
}

export const NO_CORRECTION: OffPolicySettings = {
  tisRatio: 'none',
  tokenTisCap: 2,
  sequenceTisCap: 5,
  sequenceMask: 'none',
  geometricLow: 0.99,
  geometricHigh: 1.01,
  productLow: 0.5,
  productHigh: 2,
};

export const masksOutliers = ({ outlierLow, outlierHigh }: OffPolicySettings): boolean =>
  outlierLow !== undefined || outlierHigh !== undefined;

export const masksTokens = ({ tokenMaskLow, tokenMaskHigh }: OffPolicySettings): boolean =>
  tokenMaskLow !== undefined && tokenMaskHigh !== undefined;

/** A kind of correction that there is not. */
export class BadCorrection extends Error {
  override readonly name = 'BadCorrection';
}

export const TIS_RATIOS = ['none', 'token', 'sequence'] as const;
export const SEQUENCE_MASKS = ['none', 'geometric', 'product'] as const;

/** Errors: `BadCorrection` for a kind that there is not. */
export function checkCorrection({ tisRatio, sequenceMask }: OffPolicySettings): void {
  const refuse = (field: string, value: string, known: readonly string[]): void => {
    if (!known.includes(value)) throw new BadCorrection(`${field}: ${value} cannot be used; one of ${known.join(', ')}`);
  };
  refuse('tisRatio', tisRatio, TIS_RATIOS);
  refuse('sequenceMask', sequenceMask, SEQUENCE_MASKS);
}

export const isCorrecting = (settings: OffPolicySettings): boolean =>
  settings.tisRatio !== 'none' || settings.sequenceMask !== 'none' || masksOutliers(settings) || masksTokens(settings);
