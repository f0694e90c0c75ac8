/** An update's settings as the parts read them, with SkyRL's defaults for what is left out. */

import type { LossSettings, OffPolicySettings, UpdateSettings } from '../../protocol/algorithm.ts';
import { isCorrecting, NO_CORRECTION } from '../algorithms/off-policy-settings.ts';

/** The settings of the loss, for the pass that `noiseKey` names. */
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
 * Whether the old policy's log-probabilities are computed anew: a correction compares them with the recorded ones, and KL
 * that is taken off rewards is that of the policy in training, whoever sampled (SkyRL's `_skip_policy_forward`). Else the
 * recorded ones stand for both, and no pass is spent on them.
 */
export function recomputesOld(settings: UpdateSettings): boolean {
  const correction = correctionOf(settings);
  return settings.kl?.in === 'reward' || (correction !== undefined && isCorrecting(correction));
}

function correctionOf({ offPolicyCorrection }: UpdateSettings): OffPolicySettings | undefined {
  return offPolicyCorrection && { ...NO_CORRECTION, ...offPolicyCorrection };
}

/** Settings of the policy losses, with SkyRL's values as defaults; each loss reads its own and the clip range alone. */
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
