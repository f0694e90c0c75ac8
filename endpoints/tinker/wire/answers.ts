/** The JSON answers, as a client reads them: fields beyond these are let through. */

import { z } from 'zod';

/** What a request that takes long is answered with: its result comes through `retrieve_future`. */
export const futureAnswer = z.object({
  request_id: z.string(),
  model_id: z.string().nullish(),
  sample_sequence_ids: z.array(z.string()).nullish(),
});
export const sessionAnswer = z.object({
  session_id: z.string(),
  info_message: z.string().nullish(),
  warning_message: z.string().nullish(),
  error_message: z.string().nullish(),
});
export const capabilitiesAnswer = z.object({
  supported_models: z.array(
    z.object({
      model_name: z.string().nullish(),
      max_context_length: z.int().nullish(),
      trainable: z.boolean().nullish(),
      sampleable: z.boolean().nullish(),
    }),
  ),
});
export const clientConfigAnswer = z.object({ proto_compress_fwdbwd: z.boolean().default(false) });
export const infoAnswer = z.object({
  model_id: z.string(),
  model_data: z.object({
    model_name: z.string().nullish(),
    tokenizer_id: z.string().nullish(),
    arch: z.string().nullish(),
  }),
  is_lora: z.boolean().nullish(),
  lora_rank: z.int().nullish(),
});
export const createModelAnswer = z.object({ model_id: z.string() });
export const optimStepAnswer = z.object({ metrics: z.record(z.string(), z.number()).nullish() });
export const saveAnswer = z.object({ path: z.string() });
export const saveForSamplerAnswer = z.object({ path: z.string().nullish(), sampling_session_id: z.string().nullish() });
export const loadAnswer = z.object({ path: z.string().nullish(), model_id: z.string().nullish() });
export const samplingSessionAnswer = z.object({ sampling_session_id: z.string() });

export const checkpointAnswer = z.object({
  checkpoint_id: z.string(),
  checkpoint_type: z.enum(['training', 'sampler', 'external']),
  time: z.string(),
  tinker_path: z.string(),
  size_bytes: z.number().nullish(),
  public: z.boolean().default(false),
  user_metadata: z.record(z.string(), z.string()).nullish(),
  expires_at: z.string().nullish(),
});
const cursor = z.object({ offset: z.int(), limit: z.int(), total_count: z.int() });
export const checkpointsAnswer = z.object({ checkpoints: z.array(checkpointAnswer), cursor: cursor.nullish() });
export const weightsInfoAnswer = z.object({
  base_model: z.string(),
  is_lora: z.boolean(),
  lora_rank: z.int().nullish(),
});

/** A future that is not finished. */
export const tryAgainAnswer = z.object({
  type: z.literal('try_again'),
  request_id: z.string(),
  queue_state: z.string().nullish(),
  queue_state_reason: z.string().nullish(),
});
/** A future that failed. */
export const failedAnswer = z.object({
  error: z.string(),
  category: z.enum(['user', 'server', 'unknown']).catch('unknown'),
});
/** A large result: it comes when the request is sent again without `allow_metadata_only`. */
export const metadataAnswer = z.object({ status: z.literal('complete_metadata'), response_payload_size: z.number() });
