/** The policy losses by name; the built-in names are SkyRL's. */

import { guarded, miscounted } from '../own-code.ts';
import { Registry } from '../../../modules/registry.ts';
import { cispo } from './cispo.ts';
import { clipCov, klCov } from './covariance.ts';
import { crossEntropy, importanceSampling } from './tinker.ts';
import { dppo } from './dppo.ts';
import { gspo } from './gspo.ts';
import type { PolicyLossDefinition, PolicyTokens, TokenTerms } from './loss.ts';
import { dualClip, regular } from './ppo.ts';
import { rolloutIs } from './rollout-is.ts';
import { sapo } from './sapo.ts';

export const LOSSES = {
  regular,
  dual_clip: dualClip,
  gspo,
  cispo,
  sapo,
  rollout_is: rolloutIs,
  clip_cov: clipCov,
  kl_cov: klCov,
  dppo,
  cross_entropy: crossEntropy,
  importance_sampling: importanceSampling,
} as const satisfies Record<string, PolicyLossDefinition>;

export const policyLosses = new Registry<PolicyLossDefinition>('loss', LOSSES);

/** Adds a user's own loss under a new name, for `algorithm.loss`. Errors: `TypeError` if the name is taken. */
export function defineLoss(name: string, loss: PolicyLossDefinition): void {
  const wrong = (answer: unknown, tokens: unknown): string | undefined => {
    const [terms, { length }] = [answer as Partial<TokenTerms> | undefined, (tokens as PolicyTokens).mask];
    return miscounted('values', terms?.values, length) ?? miscounted('slopes', terms?.slopes, length);
  };
  policyLosses.define(name, guarded(`loss ${name}`, loss, 'terms', wrong));
}
