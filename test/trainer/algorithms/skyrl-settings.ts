/** Translates SkyRL's names of settings to Longhaul's. */

import { DEFAULT_LOSS_SETTINGS } from '../../../trainer/training/settings.ts';
import type { LossSettings, OffPolicySettings } from '../../../protocol/algorithm.ts';
import { NO_CORRECTION } from '../../../trainer/algorithms/off-policy-settings.ts';

const OFF_POLICY: Readonly<Record<string, keyof OffPolicySettings>> = {
  tis_ratio_type: 'tisRatioType',
  token_tis_ratio_clip_high: 'tokenTisRatioClipHigh',
  sequence_tis_ratio_clip_high: 'sequenceTisRatioClipHigh',
  sequence_mask_metric: 'sequenceMaskMetric',
  geo_mask_low: 'geoMaskLow',
  geo_mask_high: 'geoMaskHigh',
  product_mask_low: 'productMaskLow',
  product_mask_high: 'productMaskHigh',
  outlier_token_is_threshold_low: 'outlierTokenIsThresholdLow',
  outlier_token_is_threshold_high: 'outlierTokenIsThresholdHigh',
  token_mask_is_threshold_low: 'tokenMaskIsThresholdLow',
  token_mask_is_threshold_high: 'tokenMaskIsThresholdHigh',
};

const LOSS: Readonly<Record<string, string>> = {
  eps_clip_low: 'clipLow',
  eps_clip_high: 'clipHigh',
  clip_ratio_c: 'clipRatioC',
  'cispo.cispo_eps_clip_low': 'cispo.clipLow',
  'cispo.cispo_eps_clip_high': 'cispo.clipHigh',
  'cispo.cispo_anchor': 'cispo.anchor',
  'sapo.tau_pos': 'sapo.tauPositive',
  'sapo.tau_neg': 'sapo.tauNegative',
  'dppo.dppo_type': 'dppo.divergence',
  'dppo.delta_low': 'dppo.deltaLow',
  'dppo.delta_high': 'dppo.deltaHigh',
  'kl_cov.kl_cov_frac': 'klCov.fraction',
  'kl_cov.ppo_kl_coef': 'klCov.coefficient',
  'clip_cov.clip_ratio': 'clipCov.ratio',
  'clip_cov.clip_cov_lb': 'clipCov.lowerBound',
  'clip_cov.clip_cov_ub': 'clipCov.upperBound',
};

function renamed(names: Readonly<Record<string, string>>, name: string): string {
  const ours = names[name];
  if (ours === undefined) throw new Error(`${name} has no name here`);
  return ours;
}

export function offPolicyOf(config: Readonly<Record<string, unknown>>): OffPolicySettings {
  const given = Object.entries(config).filter(([, value]) => value !== null);
  return { ...NO_CORRECTION, ...Object.fromEntries(given.map(([name, value]) => [renamed(OFF_POLICY, name), value])) };
}

export function lossSettingsOf({
  off_policy_correction: offPolicyCorrection,
  ...config
}: Readonly<Record<string, unknown>>): LossSettings {
  // SkyRL's own range is symmetric.
  const settings = structuredClone({ ...DEFAULT_LOSS_SETTINGS, clipHigh: 0.2 }) as unknown as Record<
    string,
    Record<string, unknown>
  >;
  for (const [name, value] of Object.entries(config)) {
    const parts =
      typeof value === 'object' && value !== null
        ? Object.entries(value).map(([key, part]) => [`${name}.${key}`, part] as const)
        : [[name, value] as const];
    for (const [path, part] of parts) {
      const [first = '', second] = renamed(LOSS, path).split('.');
      if (second === undefined) (settings as Record<string, unknown>)[first] = part;
      else settings[first] = { ...settings[first], [second]: part };
    }
  }
  return {
    ...(settings as unknown as LossSettings),
    ...(offPolicyCorrection !== undefined && {
      offPolicyCorrection: offPolicyOf(offPolicyCorrection as Record<string, unknown>),
    }),
  };
}
