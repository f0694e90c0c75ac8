/** The configuration of `longhaul sft`: every field and its bounds. Relative paths start at the file's folder. */

import { dirname, resolve } from 'node:path';
import { z } from 'zod';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { loraSchema } from '../../config/algorithm/critic-schema.ts';
import { checkPolicyAdapter } from '../../activities/orchestrator/check-adapter.ts';
import { parseSettings } from '../../config/run-config.ts';
import { SEQUENCE_KINDS } from '../starter/sequences.ts';
import { absoluteModel } from '../../trainer/hub/hub-id.ts';
import { resolveModel } from '../../trainer/hub/resolve-model.ts';
import { RATE_SCHEDULES } from '../../protocol/algorithm.ts';
import { readSettings } from '../../config/read-config.ts';

const count = z.int().min(1);

const stage = z.strictObject({
  /** The kind of sequences. */
  data: z.enum(SEQUENCE_KINDS),
  /** Number of the first sequence. Default: the one after the last stage of the same kind. */
  first: z.int().min(0).optional(),
  steps: count,
  batchSize: count,
  learningRate: z.number().positive(),
  warmup: z.int().min(0).default(0),
  schedule: z.enum(RATE_SCHEDULES).default('cosine'),
  finalRate: z.number().min(0).max(1).default(0),
});

const schema = z.strictObject({
  seed: z.int().min(0).default(1),
  out: z.string().min(1),
  /** The policy from which training continues. Absent: a new policy with the shape `model`. */
  initial: z.string().optional(),
  model: z
    .strictObject({
      layers: count,
      hidden: count,
      heads: count,
      kvHeads: count,
      headDim: count,
      intermediate: count,
      ropeTheta: z.number().positive().default(10_000),
      initializerRange: z.number().positive().default(0.02),
      maxPositions: count.default(1024),
    })
    .optional(),
  /** The new policy's vocabulary: `size` is the most ids, `conversations` the number of texts it is learned from. */
  vocabulary: z.strictObject({ size: count.default(512), conversations: count.default(4000) }).prefault({}),
  /** Trains an adapter of `initial`. */
  lora: loraSchema.optional(),
  weightDecay: z.number().min(0).default(0.01),
  microBatchTokens: count.default(8192),
  packing: z.boolean().default(false),
  gradientCheckpointing: z.boolean().default(false),
  stages: z.array(stage).min(1),
});

export type SftConfig = z.infer<typeof schema>;

/** Errors: `UserInputError` with field, value and remedy; `ModelUnavailable`. */
export async function readSftConfig(path: string, out: string | undefined): Promise<SftConfig> {
  const config = parseSettings(schema, await readSettings(path));
  if ((config.initial === undefined) === (config.model === undefined)) {
    throw new UserInputError('initial', config.initial, 'give either `initial` or `model`');
  }
  if (config.lora !== undefined && config.initial === undefined) {
    throw new UserInputError('lora', config.lora, 'give `initial`, the policy that gets the adapter');
  }
  const here = (name: string) => resolve(dirname(path), name);
  const initial =
    config.initial === undefined ? undefined : await resolveModel(absoluteModel(config.initial, dirname(path)));
  if (initial !== undefined) await checkPolicyAdapter('lora', config.lora, initial);
  return {
    ...config,
    out: out === undefined ? here(config.out) : resolve(out),
    ...(initial === undefined ? {} : { initial }),
  };
}
