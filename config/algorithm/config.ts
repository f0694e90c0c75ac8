/** The schema of `algorithm`: names, bounds, and when a setting has an effect. A setting without effect is refused. */

import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { ADVANTAGES, advantageEstimators } from '../../trainer/algorithms/advantages/registry.ts';
import { LOSSES, policyLosses } from '../../trainer/algorithms/losses/registry.ts';
import { LOSS_REDUCTIONS, RATE_SCHEDULES } from '../../protocol/algorithm.ts';
import type { AlgorithmSettings, TrainingSettings } from '../../protocol/run-config.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import { didYouMean } from '../../protocol/closest.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { filled, refusedBy } from './conditional-settings.ts';
import { criticSchema, gradientBound } from './critic-schema.ts';
import { klSchema } from './kl-schema.ts';
import { cispo, clipCov, dppo, klCov, sapo } from './loss-schemas.ts';
import { offPolicyCorrectionSchema } from './off-policy-schema.ts';
import { RULES } from './rules.ts';

const count = z.int().min(1);
const positive = z.number().positive();
const share = z.number().min(0).max(1);

const nameOf = (fallback: string) => z.string().min(1).default(fallback);

const given = z.strictObject({
  module: z.never('name the file in modules, at the top of the configuration').optional(),
  advantage: nameOf('grpo'),
  normaliseByStd: z.boolean().optional(),
  gamma: share.optional(),
  lambd: share.optional(),
  critic: criticSchema.optional(),
  valueClip: positive.nullable().optional(),
  advantageBatchNormalise: z.boolean().default(false),
  zeroVarianceFilter: z.boolean().optional(),
  overlongFilter: z.boolean().default(false),
  loss: nameOf('regular'),
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
  offPolicyCorrection: offPolicyCorrectionSchema.optional(),
  kl: klSchema.optional(),
  entropyCoefficient: z.number().min(0).default(0),
  learningRate: positive.default(1e-6),
  warmup: z.int().min(0).default(0),
  schedule: z.enum(RATE_SCHEDULES).default('constant'),
  finalRate: share.default(0),
  epochs: count.default(1),
  minibatches: count.default(1),
  maxGradNorm: gradientBound,
  weightDecay: z.number().min(0).default(0),
  betas: z.tuple([z.number().min(0).lt(1), z.number().min(0).lt(1)]).default([0.9, 0.999]),
  epsilon: positive.default(1e-8),
  microBatchTokens: count.default(8192),
  packing: z.boolean().default(false),
  gradientCheckpointing: z.boolean().default(false),
});

function checkRules(settings: Readonly<Record<string, unknown>>, context: z.RefinementCtx): void {
  const refused = refusedBy(RULES, settings);
  if (refused) context.addIssue({ code: 'custom', path: [refused.field], message: refused.remedy });
  if (settings['lossReduction'] === 'seq_mean_token_sum_norm' && settings['maxSequenceTokens'] === undefined) {
    context.addIssue({
      code: 'custom',
      path: ['maxSequenceTokens'],
      message: "give a number of tokens: every sequence's sum is divided by it",
    });
  }
}

/** Errors: `UserInputError` for a name that is not built in, of a run without modules. */
export function checkNames(settings: Partial<Pick<AlgorithmSettings, 'advantage' | 'loss'>>): void {
  for (const [kind, builtIn] of [
    ['advantage', ADVANTAGES],
    ['loss', LOSSES],
  ] as const) {
    const { [kind]: name = '' } = settings;
    if (name === '' || name in builtIn) continue;
    const known = Object.keys(builtIn);
    const remedy = `give one of ${known.join(', ')}, or the modules that define it (modules)`;
    throw new UserInputError(`algorithm.${kind}`, name, `${remedy}${didYouMean(name, known)}`);
  }
}

/** Its output is a valid input, with the same output. */
export const algorithmSchema = given.superRefine(checkRules).transform((settings) => {
  const { kl: klGiven, ...rest } = filled(RULES, settings);
  return {
    ...rest,
    ...((klGiven as { in?: string } | undefined)?.in === 'none' || klGiven === undefined ? {} : { kl: klGiven }),
  };
});

/**
 * Called after the run's modules were loaded. `modules`: their digest. Errors: `UserInputError` for settings that its
 * definitions exclude.
 */
export function checkDefinitions(
  { advantage, loss = 'regular', offPolicyCorrection, critic }: AlgorithmSettings,
  mode: TrainingSettings['mode'] = 'sync',
  modules?: ObjectRef,
): void {
  for (const [kind, name, registry] of [
    ['advantage', advantage, advantageEstimators],
    ['loss', loss, policyLosses],
  ] as const) {
    if (registry.has(name, modules)) continue;
    const known = registry.names(modules);
    const remedy = `no module of the run defines it; give one of ${known.join(', ')}`;
    throw new UserInputError(`algorithm.${kind}`, name, `${remedy}${didYouMean(name, known)}`);
  }
  if (critic !== undefined && advantageEstimators.get(advantage, modules).over !== 'token') {
    throw new UserInputError(
      'algorithm.critic',
      critic,
      `leave it out: ${advantage} compares a group's rewards, and gives no return for each token`,
    );
  }
  // Modes with overlap set the default before the module is loaded, and it is not applied to such a loss. In sync only
  // the user sets one.
  const isDefault = mode !== 'sync' && isDeepStrictEqual(offPolicyCorrection, offPolicyCorrectionSchema.parse({}));
  if (offPolicyCorrection !== undefined && !isDefault && !policyLosses.get(loss, modules).correctable) {
    throw new UserInputError(
      'algorithm.offPolicyCorrection',
      offPolicyCorrection,
      `leave it out: ${loss} is defined without off-policy correction`,
    );
  }
}
