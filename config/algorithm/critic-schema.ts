/** The schema of `algorithm.critic`: a value model of its own, with an optimizer and a learning rate of its own. */

import { z } from 'zod';
import { RATE_SCHEDULES } from '../../protocol/algorithm.ts';
import { loraSchema } from './lora-schema.ts';

/** `.inf` is what YAML and PyTorch have for no bound; kept as `null`, since JSON has no infinity. */
export const gradientBound = z
  .preprocess((value) => (value === Infinity ? null : value), z.number().positive().nullable())
  .default(1);

const count = z.int().min(1);
const beta = z.number().min(0).lt(1);

/** SkyRL's defaults (`trainer.critic.optimizer_config`) for the rate; the rest as the policy's. */
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
