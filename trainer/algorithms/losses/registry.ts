/** The policy losses by name; the built-in names are SkyRL's. */

import { guarded } from '../own-code.ts';
import { Registry } from '../registry.ts';
import { cispo } from './cispo.ts';
import { clipCov } from './clip-cov.ts';
import { crossEntropy } from './cross-entropy.ts';
import { dppo } from './dppo.ts';
import { gspo } from './gspo.ts';
import { importanceSampling } from './importance-sampling.ts';
import { klCov } from './kl-cov.ts';
import type { PolicyLossDefinition } from './loss.ts';
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

/** Adds a loss of one's own under a new name, for `algorithm.loss`. Errors: a `TypeError` where the name is taken. */
export function defineLoss(name: string, loss: PolicyLossDefinition): void {
  policyLosses.define(name, guarded(`loss ${name}`, loss, 'terms'));
}
