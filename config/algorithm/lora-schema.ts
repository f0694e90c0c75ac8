/** The schema of a new adapter: of the policy (`policy.lora`), of its critic (`algorithm.critic.lora`), or of supervised training. */

import { z } from 'zod';
import { LORA_TARGETS } from '../../protocol/algorithm.ts';

export const loraSchema = z.strictObject({
  rank: z.int().min(1).default(8),
  alpha: z.number().positive().default(16),
  targetModules: z
    .array(z.enum(LORA_TARGETS))
    .min(1)
    .refine((names) => new Set(names).size === names.length, 'name each module once')
    .default([...LORA_TARGETS]),
});
