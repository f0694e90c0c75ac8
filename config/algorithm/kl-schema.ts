/** The schema of `algorithm.kl`: KL to the base policy in the loss or in the reward, and how its weight changes. */

import { z } from 'zod';
import { KL_ESTIMATORS } from '../../protocol/algorithm.ts';
import { type Rule, withRules } from './conditional-settings.ts';

const positive = z.number().positive();

/** A rule with a default for each field. */
const defaults = (values: Readonly<Record<string, unknown>>, applies: Rule['applies'], remedy: string): Rule[] =>
  Object.entries(values).map(([field, value]) => ({ field, applies, fill: () => value, remedy }));

export const klSchema = withRules(
  z.strictObject({
    in: z.enum(['none', 'loss', 'reward']).default('loss'),
    estimator: z.enum(KL_ESTIMATORS).optional(),
    coefficient: z.number().min(0).optional(),
    controller: z.enum(['fixed', 'adaptive']).optional(),
    target: positive.optional(),
    horizon: positive.optional(),
  }),
  [
    ...defaults(
      { estimator: 'k3', coefficient: 0.001, controller: 'fixed' },
      (s) => s['in'] !== 'none',
      'leave it out, or give in: loss or in: reward',
    ),
    ...defaults(
      { target: 0.1, horizon: 10_000 },
      (s) => s['controller'] === 'adaptive',
      'leave it out, or give controller: adaptive',
    ),
  ],
);
