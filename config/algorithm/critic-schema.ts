/** The schemas of `algorithm.critic` (a value model with its own optimizer) and of an adapter. */

import { z } from 'zod';
import { LORA_TARGETS, RATE_SCHEDULES } from '../../protocol/algorithm.ts';

/** For `policy.lora`, `algorithm.critic.lora`, and `lora` of supervised training. */
export const loraSchema = z.strictObject({
  rank: z.int().min(1).default(8),
  alpha: z.number().positive().default(16),
  targetModules: z
    .array(z.enum(LORA_TARGETS))
    .min(1)
    .refine((names) => new Set(names).size === names.length, 'name each module once')
    .default([...LORA_TARGETS]),
});

/** YAML and PyTorch use `.inf` for no bound. It is kept as `null`, since JSON has no infinity. */
export const gradientBound = z
  .preprocess((value) => (value === Infinity ? null : value), z.number().positive().nullable())
  .default(1);

const count = z.int().min(1);
const beta = z.number().min(0).lt(1);

/** The rate has SkyRL's default (`trainer.critic.optimizer_config`), other settings the policy's defaults. */
export const criticSchema = z.strictObject({
  base: z.string().min(1).optional(),
  lora: loraSchema.optional(),
  learningRate: z.number().positive().default(5e-6),
  warmup: z.int().min(0).default(0),
  schedule: z.enum(RATE_SCHEDULES).default('constant'),
  finalRate: z.number().min(0).max(1).default(0),
  minibatches: count.optional(),
  maxGradNorm: gradientBound,
  weightDecay: z.number().min(0).default(0),
  betas: z.tuple([beta, beta]).default([0.9, 0.999]),
  epsilon: z.number().positive().default(1e-8),
});
