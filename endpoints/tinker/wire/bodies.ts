/**
 * The JSON bodies of requests. Unknown fields are let through, since newer clients send more of them, except where a
 * field would change numbers: the settings of an adapter, of Adam and of sampling.
 */

import { z } from 'zod';
import { MOST_DATUMS } from './pass-request.ts';

/** Of one sample request. */
export const MOST_STOPS = 64;

/** A number that may be absent or null. */
const optional = <T extends z.ZodType>(schema: T) => schema.nullish().transform((value) => value ?? undefined);
/**
 * A list that is read until its first wrong element: an error for each of a million elements would take a hundred times
 * the body's memory.
 */
const list = <T extends z.ZodType>(one: T, most: number) =>
  z.unknown().transform((given, context): Array<z.output<T>> => {
    const refuse = (message: string, path: PropertyKey[] = []) => {
      context.issues.push({ code: 'custom', message, input: undefined, path });
      return z.NEVER;
    };
    if (!Array.isArray(given) || given.length > most) return refuse(`give a list of at most ${most} elements`);
    const read: Array<z.output<T>> = [];
    for (const [i, element] of given.entries()) {
      const parsed = one.safeParse(element);
      if (!parsed.success) {
        const [issue] = parsed.error.issues;
        return refuse(issue?.message ?? 'it cannot be used', [i, ...(issue?.path ?? [])]);
      }
      read.push(parsed.data);
    }
    return read;
  });
/** As `list`; numbers are many, and are not copied. */
const MOST_NUMBERS = 2 ** 24;
const numbers = z.custom<number[]>(
  (given) => Array.isArray(given) && given.length <= MOST_NUMBERS && given.every((one) => Number.isFinite(one)),
  `give a list of finite numbers, at most ${MOST_NUMBERS}`,
);
const MOST_KEYS = 32;
const record = <T extends z.ZodType>(value: T) =>
  z
    .custom<Record<string, unknown>>(
      (given) => typeof given === 'object' && given !== null && Object.keys(given).length <= MOST_KEYS,
      `give an object of at most ${MOST_KEYS} entries`,
    )
    .transform((given, context): Record<string, z.output<T>> => {
      const read = Object.entries(given).map(([key, one]) => {
        const parsed = value.safeParse(one);
        for (const issue of parsed.error?.issues ?? [])
          context.issues.push({ code: 'custom', message: issue.message, input: undefined, path: [key, ...issue.path] });
        return [key, parsed.success ? parsed.data : z.NEVER] as const;
      });
      return Object.fromEntries(read);
    });
const id = z.string().min(1).max(512);
/** Clients that are copies of one another number from a random multiple of 10^9 below 10^18: as text beyond 2^53. */
const seq = z.union([z.int().min(0), z.string().regex(/^\d{16,19}$/)]);
const ttl = optional(z.number());
const time = z.string().refine((given) => !Number.isNaN(Date.parse(given)), 'give a time, as 2026-01-31T12:00:00Z');
const MOST_METADATA = 65_536;
/** Kept as it is: zod's records lose the key `__proto__`. */
const metadata = optional(
  z
    .custom<Record<string, unknown>>(
      (given) => typeof given === 'object' && given !== null && !Array.isArray(given),
      'give an object',
    )
    .refine(
      (given) => Buffer.byteLength(JSON.stringify(given)) <= MOST_METADATA,
      `give at most ${MOST_METADATA} bytes of JSON`,
    ),
);

export const createSessionBody = z.object({
  tags: list(z.string().max(1000), 100).default([]),
  user_metadata: metadata,
  sdk_version: optional(z.string()),
  project_id: optional(z.string().max(512)),
  display_name: optional(z.string().max(1000)),
});
export const sessionBody = z.object({ session_id: id });
export const finishBody = z.object({
  reason: z.object({ type: z.enum(['success', 'errored', 'interrupted']) }),
  detail: optional(z.string().max(4096)),
});

export const loraConfig = z.strictObject({
  rank: z.number(),
  seed: optional(z.number()),
  train_unembed: z.boolean().default(true),
  train_mlp: z.boolean().default(true),
  train_attn: z.boolean().default(true),
});
const optimizerConfig = optional(z.looseObject({ type: z.string() }));
export const createModelBody = z.object({
  session_id: id,
  model_seq_id: seq,
  base_model: id,
  lora_config: optional(loraConfig),
  user_metadata: metadata,
  optimizer_config: optimizerConfig,
});
export const modelBody = z.object({ model_id: id });

export const adamParams = z.strictObject({
  learning_rate: z.number().default(1e-4),
  beta1: z.number().default(0.9),
  beta2: z.number().default(0.95),
  eps: z.number().default(1e-12),
  weight_decay: z.number().default(0),
  grad_clip_norm: z.number().default(0),
});
export const optimStepBody = z.object({
  model_id: id,
  seq_id: optional(seq),
  adam_params: optional(adamParams),
  optimizer_params: optional(z.looseObject({ type: z.string() })),
});

export const saveWeightsBody = z.object({
  model_id: id,
  path: optional(z.string()),
  seq_id: optional(seq),
  ttl_seconds: ttl,
  overwrite: z.boolean().default(false),
  user_metadata: metadata,
});
export const saveForSamplerBody = z.object({
  model_id: id,
  path: optional(z.string()),
  seq_id: optional(seq),
  sampling_session_seq_id: optional(seq),
  kind: z.enum(['snapshot', 'inflight']).default('snapshot'),
  ttl_seconds: ttl,
  user_metadata: metadata,
});
export const loadWeightsBody = z.object({
  model_id: optional(id),
  seq_id: optional(seq),
  session_id: optional(id),
  model_seq_id: optional(seq),
  path: z.string(),
  optimizer: z.boolean().default(false),
  base_model: optional(z.string()),
  user_metadata: metadata,
  optimizer_config: optimizerConfig,
});

const chunk = z.looseObject({ type: z.string().default('encoded_text'), tokens: numbers.optional() });
export const modelInput = z.object({ chunks: list(chunk, 2 ** 16) });
export const tensorData = z.object({
  data: numbers,
  dtype: z.enum(['float32', 'int64']),
  shape: optional(numbers),
  sparse_crow_indices: optional(numbers),
  sparse_col_indices: optional(numbers),
});
export const passInput = z.object({
  data: list(z.object({ model_input: modelInput, loss_fn_inputs: record(tensorData) }), MOST_DATUMS),
  loss_fn: z.string(),
  loss_fn_config: optional(record(z.union([z.number(), z.string()]))),
});
export const forwardBackwardBody = z.object({
  model_id: id,
  seq_id: optional(seq),
  forward_backward_input: passInput,
  forward_only: z.boolean().default(false),
});
export const forwardBody = z.object({ model_id: id, seq_id: optional(seq), forward_input: passInput });

export const createSamplingSessionBody = z.object({
  session_id: id,
  sampling_session_seq_id: seq,
  base_model: optional(z.string()),
  model_path: optional(z.string()),
});
export const samplingSessionBody = z.object({ sampling_session_id: id });
export const samplingParams = z.strictObject({
  max_tokens: optional(z.number()),
  seed: optional(z.number()),
  stop: optional(z.union([z.string(), list(z.string(), MOST_STOPS), list(z.number(), MOST_STOPS)])),
  temperature: z.number().default(1),
  top_k: z.number().default(-1),
  top_p: z.number().default(1),
});
export const sampleBody = z.object({
  sampling_session_id: optional(id),
  seq_id: optional(seq),
  base_model: optional(z.string()),
  model_path: optional(z.string()),
  num_samples: z.number().default(1),
  prompt: modelInput,
  sampling_params: samplingParams,
  prompt_logprobs: optional(z.boolean()),
  topk_prompt_logprobs: z.number().default(0),
  topk_sample_logprobs: z.number().default(0),
  target_prompt_logprobs: optional(z.unknown()),
  prompt_alt_tokens_k: z.number().default(0),
  prompt_logprobs_last_n: optional(z.number()),
  record_stability_info: optional(z.boolean()),
});

export const retrieveBody = z.object({ request_id: id, allow_metadata_only: z.boolean().default(false) });
export const cancelBody = z.object({ request_id: id });
export const retrieveManyBody = z.object({
  target: z.object({
    type: z.literal('sampling_session'),
    sampling_session_id: id,
    cloned_sampler_id: z.int().min(0).default(0),
  }),
  prev_cursor: z.int().min(0).default(0),
  timeout: optional(z.number().min(0)),
  retrieved_request_ids: list(z.string(), 2 ** 16).default([]),
});

export const pathBody = z.object({ tinker_path: z.string() });
export const copyBody = z.object({
  source_path: z.string(),
  session_id: optional(id),
  model_seq_id: optional(seq),
  ttl_seconds: ttl,
  destination_project_id: optional(z.string()),
  weights_access_token: optional(z.string()),
});
export const ttlBody = z.object({ ttl_seconds: z.number().nullish() });
export const searchBody = z.object({
  session_id: optional(z.string()),
  display_name: optional(z.string()),
  user_metadata: record(z.string()).default({}),
  statuses: optional(list(z.looseObject({ type: z.string(), reasons: optional(list(z.string(), 100)) }), 100)),
  limit: z.int().min(1).max(200).default(50),
  cursor: optional(z.object({ last_created_at: time, last_session_id: z.string() })),
});
