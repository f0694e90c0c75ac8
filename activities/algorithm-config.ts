/** The schema of `algorithm`: names, bounds, and which setting has an effect where. One without effect is refused, not kept. */

import { z } from 'zod';
import { advantageEstimators } from '../trainer/algorithms/advantages/registry.ts';
import { KL_ESTIMATORS } from '../trainer/algorithms/kl/estimate.ts';
import { policyLosses } from '../trainer/algorithms/losses/registry.ts';
import { SEQUENCE_MASKS, TIS_RATIOS } from '../trainer/algorithms/off-policy/settings.ts';
import { LOSS_REDUCTIONS } from '../trainer/algorithms/reductions/reduce.ts';
import { RATE_SCHEDULES } from '../trainer/learning-rate.ts';
import { UserInputError } from './failures.ts';
import { type Rule, filled, refusedBy, withRules } from './conditional-settings.ts';

const count = z.int().min(1);
const positive = z.number().positive();
const share = z.number().min(0).max(1);

const offPolicyCorrection = withRules(
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
    // Asked for without a word on how: the usual one.
    { field: 'tisRatioType', applies: () => true, fill: (s) => (isMasking(s) ? 'none' : 'token'), remedy: '' },
    { field: 'tokenTisRatioClipHigh', applies: (s) => s['tisRatioType'] === 'token', fill: () => 2, remedy: 'leave it out, or give tisRatioType: token' },
    { field: 'sequenceTisRatioClipHigh', applies: (s) => s['tisRatioType'] === 'sequence', fill: () => 5, remedy: 'leave it out, or give tisRatioType: sequence' },
    ...ofMask('geometric', { geoMaskLow: 0.99, geoMaskHigh: 1.01 }),
    ...ofMask('product', { productMaskLow: 0.5, productMaskHigh: 2 }),
    { field: 'tokenMaskIsThresholdLow', applies: (s) => s['tokenMaskIsThresholdHigh'] !== undefined, remedy: 'give tokenMaskIsThresholdHigh too, or leave it out: a token mask has two bounds' },
    { field: 'tokenMaskIsThresholdHigh', applies: (s) => s['tokenMaskIsThresholdLow'] !== undefined, remedy: 'give tokenMaskIsThresholdLow too, or leave it out: a token mask has two bounds' },
  ],
);

function isMasking(settings: Readonly<Record<string, unknown>>): boolean {
  const { sequenceMaskMetric, ...thresholds } = settings;
  return sequenceMaskMetric !== 'none' || Object.entries(thresholds).some(([name, value]) => name.includes('Threshold') && value !== undefined);
}

function ofMask(metric: string, bounds: Readonly<Record<string, number>>): Rule[] {
  return Object.entries(bounds).map(([field, value]) => ({
    field,
    applies: (s) => s['sequenceMaskMetric'] === metric,
    fill: () => value,
    remedy: `leave it out, or give sequenceMaskMetric: ${metric}`,
  }));
}

const kl = withRules(
  z.strictObject({
    in: z.enum(['none', 'loss', 'reward']).default('loss'),
    estimator: z.enum(KL_ESTIMATORS).optional(),
    coefficient: z.number().min(0).optional(),
    controller: z.enum(['fixed', 'adaptive']).optional(),
    target: positive.optional(),
    horizon: positive.optional(),
  }),
  [
    ...Object.entries({ estimator: 'k3', coefficient: 0.001, controller: 'fixed' }).map(([field, value]) => ({
      field, applies: (s: Readonly<Record<string, unknown>>) => s['in'] !== 'none', fill: () => value, remedy: 'leave it out, or give in: loss or in: reward',
    })),
    ...Object.entries({ target: 0.1, horizon: 10_000 }).map(([field, value]) => ({
      field, applies: (s: Readonly<Record<string, unknown>>) => s['controller'] === 'adaptive', fill: () => value, remedy: 'leave it out, or give controller: adaptive',
    })),
  ],
);

const cispo = z.strictObject({ clipLow: share.default(1), clipHigh: z.number().min(0).default(4), anchor: z.enum(['old', 'rollout']).default('old') });
const sapo = z.strictObject({ tauPositive: positive.default(1), tauNegative: positive.default(1.05) });
const dppo = z.strictObject({ divergence: z.enum(['binary_tv', 'binary_kl']).default('binary_tv'), deltaLow: z.number().min(0).default(0.2), deltaHigh: z.number().min(0).default(0.2) });
const klCov = z.strictObject({ fraction: share.default(0.2), coefficient: z.number().min(0).default(1) });
const clipCov = z.strictObject({ ratio: share.default(0.0002), lowerBound: z.number().default(1), upperBound: z.number().default(5) });

const CLIPPING = ['regular', 'dual_clip', 'gspo', 'rollout_is', 'clip_cov'];

/** One's own names are not known here: they may read every setting that is not another loss's alone. */
const isOneOf = (kind: 'loss' | 'advantage', names: readonly string[]) => (s: Readonly<Record<string, unknown>>): boolean => {
  const name = String(s[kind]);
  return names.includes(name) || !BUILT_IN[kind].includes(name);
};
const BUILT_IN = { loss: policyLosses.names(), advantage: advantageEstimators.names() };
const forLosses = (...names: string[]) => ({ applies: isOneOf('loss', names), remedy: `leave it out, or give loss: ${names.join(' or ')}` });
const forAdvantages = (...names: string[]) => ({ applies: isOneOf('advantage', names), remedy: `leave it out, or give advantage: ${names.join(' or ')}` });
const onlyLoss = (name: string) => ({ applies: (s: Readonly<Record<string, unknown>>) => s['loss'] === name, remedy: `leave it out, or give loss: ${name}` });

/** Losses that no correction weighs, and a correction that would count one difference twice. */
function isCorrectable(s: Readonly<Record<string, unknown>>): boolean {
  const name = String(s['loss']);
  const anchoredAtRollout = name === 'cispo' && (s['cispo'] as { anchor?: string } | undefined)?.anchor === 'rollout';
  return !anchoredAtRollout && (!policyLosses.has(name) || policyLosses.get(name).correctable);
}

const RULES: readonly Rule[] = [
  { field: 'normaliseByStd', ...forAdvantages('grpo'), fill: () => true },
  { field: 'gamma', ...forAdvantages('reinforce++'), fill: () => 1 },
  { field: 'zeroVarianceFilter', applies: () => true, fill: (s) => comparesGroups(String(s['advantage'])), remedy: '' },
  { field: 'clipLow', ...forLosses(...CLIPPING), fill: () => 0.2 },
  { field: 'clipHigh', ...forLosses(...CLIPPING), fill: () => 0.28 },
  { field: 'clipRatioC', ...forLosses('dual_clip'), fill: (s) => (s['loss'] === 'dual_clip' ? 3 : undefined) },
  { field: 'cispo', ...onlyLoss('cispo'), fill: () => cispo.parse({}) },
  { field: 'sapo', ...onlyLoss('sapo'), fill: () => sapo.parse({}) },
  { field: 'dppo', ...onlyLoss('dppo'), fill: () => dppo.parse({}) },
  { field: 'klCov', ...onlyLoss('kl_cov'), fill: () => klCov.parse({}) },
  { field: 'clipCov', ...onlyLoss('clip_cov'), fill: () => clipCov.parse({}) },
  { field: 'offPolicyCorrection', applies: isCorrectable, remedy: 'leave it out: this loss takes no off-policy correction (cispo takes one with anchor: old)' },
  { field: 'lossReduction', applies: (s) => s['loss'] !== 'cross_entropy', fill: () => 'token_mean', remedy: 'leave it out: cross_entropy is a plain sum' },
  {
    field: 'maxSequenceTokens',
    applies: (s) => s['lossReduction'] === 'seq_mean_token_sum_norm',
    remedy: 'leave it out, or give lossReduction: seq_mean_token_sum_norm',
  },
];

/** Whether what it estimates is 0 in a group whose rewards are all alike. One's own estimator is not known here. */
const comparesGroups = (name: string): boolean => !advantageEstimators.has(name) || advantageEstimators.get(name).over === 'group';

const NO_CRITIC = 'give one of the others: gae needs a critic, which there is not yet';
const nameOf = (kind: 'loss' | 'advantage', fallback: string) => z.string().min(1).default(fallback).refine((name) => kind !== 'advantage' || name !== 'gae', NO_CRITIC);

const given = z.strictObject({
  module: z.string().min(1).optional(),
  advantage: nameOf('advantage', 'grpo'),
  normaliseByStd: z.boolean().optional(),
  gamma: share.optional(),
  advantageBatchNormalise: z.boolean().default(false),
  zeroVarianceFilter: z.boolean().optional(),
  overlongFilter: z.boolean().default(false),
  loss: nameOf('loss', 'regular'),
  lossReduction: z.enum(LOSS_REDUCTIONS).optional(),
  maxSequenceTokens: count.optional(),
  clipLow: share.optional(),
  clipHigh: z.number().min(0).optional(),
  clipRatioC: z.number().gt(1).optional(),
  cispo: cispo.optional(),
  sapo: sapo.optional(),
  dppo: dppo.optional(),
  klCov: klCov.optional(),
  clipCov: clipCov.optional(),
  offPolicyCorrection: offPolicyCorrection.optional(),
  kl: kl.optional(),
  entropyCoefficient: z.number().min(0).default(0),
  learningRate: positive.default(1e-6),
  warmup: z.int().min(0).default(0),
  schedule: z.enum(RATE_SCHEDULES).default('constant'),
  finalRate: share.default(0),
  epochs: count.default(1),
  minibatches: count.default(1),
  maxGradNorm: positive.default(1),
  weightDecay: z.number().min(0).default(0),
  betas: z.tuple([z.number().min(0).lt(1), z.number().min(0).lt(1)]).default([0.9, 0.999]),
  epsilon: positive.default(1e-8),
  microBatchTokens: count.default(8192),
});

function checkRules(settings: Readonly<Record<string, unknown>>, context: z.RefinementCtx): void {
  const refused = refusedBy(RULES, settings);
  if (refused) context.addIssue({ code: 'custom', path: [refused.field], message: refused.remedy });
  if (settings['lossReduction'] === 'seq_mean_token_sum_norm' && settings['maxSequenceTokens'] === undefined) {
    context.addIssue({ code: 'custom', path: ['maxSequenceTokens'], message: 'give the tokens that every sequence is divided by' });
  }
  if (settings['module'] !== undefined) return;
  for (const [kind, registry] of [['advantage', advantageEstimators], ['loss', policyLosses]] as const) {
    const name = String(settings[kind]);
    if (registry.has(name)) continue;
    const remedy = `give one of ${registry.names().join(', ')}, or the module that defines it (algorithm.module)`;
    context.addIssue({ code: 'custom', path: [kind], message: remedy });
  }
}

/** What it gives can be given again, and gives the same. */
export const algorithmSchema = given.superRefine(checkRules).transform((settings) => {
  const { kl: klGiven, ...rest } = filled(RULES, settings);
  return { ...rest, ...((klGiven as { in?: string } | undefined)?.in === 'none' || klGiven === undefined ? {} : { kl: klGiven }) };
});

/** Errors: `UserInputError` for a name that is still not there once `algorithm.module` has been loaded. */
export function checkNames({ advantage, loss = 'regular' }: { readonly advantage: string; readonly loss?: string }): void {
  for (const [kind, name, registry] of [['advantage', advantage, advantageEstimators], ['loss', loss, policyLosses]] as const) {
    if (!registry.has(name)) throw new UserInputError(`algorithm.${kind}`, name, `algorithm.module does not define it; there are ${registry.names().join(', ')}`);
  }
}
