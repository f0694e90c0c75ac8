/** An update's settings as the parts read them, with SkyRL's defaults for what is left out. */

import { DEFAULT_LOSS_SETTINGS } from '../algorithms/losses/settings.ts';
import type { LossSettings, OffPolicySettings, UpdateSettings } from '../../protocol/algorithm.ts';
import { isCorrecting, NO_CORRECTION } from '../algorithms/off-policy/settings.ts';

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
