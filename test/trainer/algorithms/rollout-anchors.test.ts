/** Hunts losses relative to the sampling policy whose trust region has a gap, or that correct twice or not at all. */

import { expect, test } from 'vitest';
import { LossRefused } from '../../../trainer/algorithms/losses/loss.ts';
import { policyLoss } from '../../../trainer/algorithms/losses/policy-loss.ts';
import { policyLosses } from '../../../trainer/algorithms/losses/registry.ts';
import { DEFAULT_LOSS_SETTINGS } from '../../../trainer/training/settings.ts';
import type { LossSettings } from '../../../protocol/algorithm.ts';
import { NO_CORRECTION } from '../../../trainer/algorithms/off-policy-settings.ts';

const tokens = (logprob: number, rollout: number, advantage: number) => ({
  starts: [0, 1],
  mask: [1],
  logprobs: [logprob],
  old: [rollout],
  rollout: [rollout],
  advantages: [advantage],
});

const dppo = (given: Partial<LossSettings['dppo']>): LossSettings => ({
  ...DEFAULT_LOSS_SETTINGS,
  dppo: { ...DEFAULT_LOSS_SETTINGS.dppo, ...given },
});

test('dppo by binary_kl masks a token even if it has become very rare', () => {
  // KL = e^-5.6 · (30 − 5.6) + (1 − e^-5.6) · log(1 − e^-5.6) = 0.0865.
  const leftBy = (deltaLow: number) =>
    policyLoss(policyLosses.get('dppo'), tokens(-30, -5.6, -1), dppo({ divergence: 'binary_kl', deltaLow })).metrics[
      'clip_ratio'
    ];
  expect([0.05, 0.086, 0.087].map(leftBy)).toEqual([1, 1, 0]);
});

test('dppo by binary_kl is finite if a token has become certain', () => {
  const { loss, metrics } = policyLoss(
    policyLosses.get('dppo'),
    tokens(0, -0.5, 1),
    dppo({ divergence: 'binary_kl', deltaHigh: 0.05 }),
  );
  expect([loss, metrics['clip_ratio']]).toEqual([0, 1]);
});

test('an unknown divergence is refused by its name', () => {
  const settings = dppo({ divergence: 'kl' as LossSettings['dppo']['divergence'] });
  expect(() => policyLoss(policyLosses.get('dppo'), tokens(-1, -1, 1), settings)).toThrow(
    /dppo\.divergence: kl cannot be used; give one of binary_tv, binary_kl/,
  );
});

test('cispo with anchor rollout accepts masks, and no weights', () => {
  const anchored = (correction: Partial<typeof NO_CORRECTION>) => {
    const settings: LossSettings = {
      ...DEFAULT_LOSS_SETTINGS,
      cispo: { ...DEFAULT_LOSS_SETTINGS.cispo, anchor: 'rollout' },
      offPolicyCorrection: { ...NO_CORRECTION, ...correction },
    };
    // The old policy's probability is twice that of the sampling policy.
    return policyLoss(policyLosses.get('cispo'), { ...tokens(-1, -1, 1), old: [-1 + Math.log(2)] }, settings);
  };
  expect(anchored({}).gradient).toEqual(Float64Array.of(-1));
  for (const mask of [
    { sequenceMaskMetric: 'geometric' },
    { sequenceMaskMetric: 'product', productMaskHigh: 1.5 },
    { outlierTokenIsThresholdHigh: 1.5 },
    { tokenMaskIsThresholdLow: 0.5, tokenMaskIsThresholdHigh: 1.5 },
  ] as const)
    expect(anchored(mask).gradient, JSON.stringify(mask)).toEqual(Float64Array.of(0));
  for (const tisRatioType of ['token', 'sequence'] as const)
    expect(() => anchored({ tisRatioType })).toThrow(LossRefused);
});
