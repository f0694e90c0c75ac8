/** An update's settings with SkyRL's defaults for those that are absent. */

import type { LossSettings, OffPolicySettings, UpdateSettings } from '../../protocol/algorithm.ts';
import { isCorrecting, NO_CORRECTION } from '../algorithms/off-policy-settings.ts';

/** The loss settings of one pass; `noiseKey` is the seed of its random draws. */
export function lossSettings(settings: UpdateSettings, noiseKey?: string): LossSettings {
  const { clipLow, clipHigh, clipRatioC, cispo, sapo, dppo, klCov, clipCov } = DEFAULT_LOSS_SETTINGS;
  return {
    clipLow: settings.clipLow ?? clipLow,
    clipHigh: settings.clipHigh ?? clipHigh,
    clipRatioC: settings.clipRatioC ?? clipRatioC,
    cispo: settings.cispo ?? cispo,
    sapo: settings.sapo ?? sapo,
    dppo: settings.dppo ?? dppo,
    klCov: settings.klCov ?? klCov,
    clipCov: settings.clipCov ?? clipCov,
    offPolicyCorrection: correctionOf(settings),
    noiseKey,
  };
}

/**
 * True if the old policy's log-probabilities must be recomputed: an off-policy correction compares them with the
 * recorded ones, and a KL penalty on rewards uses those of the trained policy (SkyRL's `_skip_policy_forward`).
 * Otherwise the recorded ones are used for both, which saves a forward pass.
 */
export function recomputesOld(settings: UpdateSettings): boolean {
  const correction = correctionOf(settings);
  return settings.kl?.in === 'reward' || (correction !== undefined && isCorrecting(correction));
}

function correctionOf({ offPolicyCorrection }: UpdateSettings): OffPolicySettings | undefined {
  return offPolicyCorrection && { ...NO_CORRECTION, ...offPolicyCorrection };
}

/**
 * Default settings of the policy losses, with SkyRL's values, but for `clipHigh`, which is DAPO's. Each loss reads its
 * own settings and the clip range.
 */
export const DEFAULT_LOSS_SETTINGS = {
  clipLow: 0.2,
  clipHigh: 0.28,
  clipRatioC: 3,
  cispo: { clipLow: 1, clipHigh: 4, anchor: 'old' },
  sapo: { tauPositive: 1, tauNegative: 1.05 },
  dppo: { divergence: 'binary_tv', deltaLow: 0.2, deltaHigh: 0.2 },
  klCov: { fraction: 0.2, coefficient: 1 },
  clipCov: { ratio: 0.0002, lowerBound: 1, upperBound: 5 },
} as const satisfies LossSettings;
