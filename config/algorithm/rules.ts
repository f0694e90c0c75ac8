/** Which settings of `algorithm` have an effect with which advantage and loss, and their defaults then. */

import { ADVANTAGES, comparesGroups } from '../../trainer/algorithms/advantages/registry.ts';
import type { PolicyLossDefinition } from '../../trainer/algorithms/losses/loss.ts';
import { LOSSES } from '../../trainer/algorithms/losses/registry.ts';
import { DEFAULT_LOSS_SETTINGS } from '../../trainer/training/settings.ts';
import { DEFAULT_VALUE_CLIP } from '../../protocol/algorithm.ts';
import type { Rule } from './conditional-settings.ts';
import { criticSchema } from './critic-schema.ts';
import { cispo, clipCov, dppo, klCov, sapo } from './loss-schemas.ts';

const CLIPPING = ['regular', 'dual_clip', 'gspo', 'rollout_is', 'clip_cov'];

/** Built-in names only, never loaded modules: several processes resolve a configuration, with the same result. */
const BUILT_IN: { readonly loss: Readonly<Record<string, PolicyLossDefinition>>; readonly advantage: object } = {
  loss: LOSSES,
  advantage: ADVANTAGES,
};

type Settings = Parameters<Rule['applies']>[0];

/** A user's own loss or advantage may use these settings too. */
const isOneOf =
  (kind: 'loss' | 'advantage', names: readonly string[]) =>
  (s: Settings): boolean => {
    const name = String(s[kind]);
    return names.includes(name) || !(name in BUILT_IN[kind]);
  };
const forLosses = (...names: string[]) => ({
  applies: isOneOf('loss', names),
  remedy: `leave it out, or give loss: ${names.join(' or ')}`,
});
const forAdvantages = (...names: string[]) => ({
  applies: isOneOf('advantage', names),
  remedy: `leave it out, or give advantage: ${names.join(' or ')}`,
});
const onlyLoss = (name: string) => ({
  applies: (s: Settings) => s['loss'] === name,
  remedy: `leave it out, or give loss: ${name}`,
});

const isGae = (s: Settings): boolean => s['advantage'] === 'gae';

const isCispoAtRollout = (s: Settings): boolean =>
  s['loss'] === 'cispo' && (s['cispo'] as { anchor?: string } | undefined)?.anchor === 'rollout';

/** Losses whose own ratio is to the sampling policy: a correction by that ratio would count the difference twice. */
const isAnchoredAtRollout = (s: Settings): boolean =>
  ['rollout_is', 'dppo'].includes(String(s['loss'])) || isCispoAtRollout(s);

const isCorrectable = (s: Settings): boolean => BUILT_IN.loss[String(s['loss'])]?.correctable !== false;

/** True if data of other policy versions is corrected by default. */
export const needsCorrection = (s: Settings): boolean => isCorrectable(s) && !isAnchoredAtRollout(s);

const isWeighting = (s: Settings): boolean => {
  const { tisRatioType = 'none' } = (s['offPolicyCorrection'] ?? {}) as { tisRatioType?: string };
  return tisRatioType !== 'none';
};

export const RULES: readonly Rule[] = [
  { field: 'normaliseByStd', ...forAdvantages('grpo'), fill: () => true },
  { field: 'gamma', ...forAdvantages('reinforce++', 'gae'), fill: () => 1 },
  { field: 'lambd', ...forAdvantages('gae'), fill: (s) => (isGae(s) ? 1 : undefined) },
  { field: 'critic', ...forAdvantages('gae'), fill: (s) => (isGae(s) ? criticSchema.parse({}) : undefined) },
  {
    field: 'valueClip',
    applies: (s) => s['critic'] !== undefined,
    fill: () => DEFAULT_VALUE_CLIP,
    remedy: 'leave it out, or give advantage: gae',
  },
  { field: 'zeroVarianceFilter', applies: () => true, fill: (s) => comparesGroups(String(s['advantage'])), remedy: '' },
  { field: 'clipLow', ...forLosses(...CLIPPING), fill: () => DEFAULT_LOSS_SETTINGS.clipLow },
  { field: 'clipHigh', ...forLosses(...CLIPPING), fill: () => DEFAULT_LOSS_SETTINGS.clipHigh },
  {
    field: 'clipRatioC',
    ...forLosses('dual_clip'),
    fill: (s) => (s['loss'] === 'dual_clip' ? DEFAULT_LOSS_SETTINGS.clipRatioC : undefined),
  },
  { field: 'cispo', ...onlyLoss('cispo'), fill: () => cispo.parse({}) },
  { field: 'sapo', ...onlyLoss('sapo'), fill: () => sapo.parse({}) },
  { field: 'dppo', ...onlyLoss('dppo'), fill: () => dppo.parse({}) },
  { field: 'klCov', ...onlyLoss('kl_cov'), fill: () => klCov.parse({}) },
  { field: 'clipCov', ...onlyLoss('clip_cov'), fill: () => clipCov.parse({}) },
  {
    field: 'offPolicyCorrection',
    applies: isCorrectable,
    remedy: 'leave it out: this loss supports no off-policy correction',
  },
  {
    field: 'offPolicyCorrection',
    applies: (s) => !(isCispoAtRollout(s) && isWeighting(s)),
    remedy:
      'give tisRatioType: none (masks only), or cispo.anchor: old. With anchor: ' +
      'rollout, cispo itself weights by the ratio to the sampling policy',
  },
  {
    field: 'lossReduction',
    applies: (s) => s['loss'] !== 'cross_entropy',
    fill: () => 'token_mean',
    remedy: 'leave it out: cross_entropy is a plain sum',
  },
  {
    field: 'maxSequenceTokens',
    applies: (s) => s['lossReduction'] === 'seq_mean_token_sum_norm',
    remedy: 'leave it out, or give lossReduction: seq_mean_token_sum_norm',
  },
];
