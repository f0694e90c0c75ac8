/**
 * SGLang's own `/generate`: it takes `input_ids`; `meta_info.output_token_logprobs` holds `[log-probability, id, text]`
 * of each sampled token, with the stop token (which `output_ids` may lack).
 *
 * Source: docs.sglang.io, basic_usage/sampling_params and basic_usage/native_api.
 */

import { z } from 'zod';
import { EndpointError } from '../endpoint-error.ts';
import { finishOf } from '../finish-words.ts';
import { checkPromptIds, id, readAs, sharedSampling, type TokenDialect, wholeLogprobs } from './token-call.ts';

const generated = z.object({
  meta_info: z.object({
    prompt_tokens: z.int().nullish(),
    finish_reason: z.object({ type: z.string(), message: z.string().nullish() }).nullish(),
    output_token_logprobs: z.array(z.tuple([z.number().nullable(), id], z.unknown())).nullish(),
  }),
});

export const sglang: TokenDialect = {
  path: 'generate',
  native: true,
  logprobsAtTemperature: true,
  request: (_model, call) => ({
    input_ids: call.tokens,
    sampling_params: { max_new_tokens: call.sampling.maxTokens, ...sharedSampling(call), no_stop_trim: true },
    return_logprob: true,
    stream: false,
  }),
  read(body, call) {
    const { meta_info } = readAs(generated, body, 'the answer');
    checkPromptIds(call.tokens, undefined, meta_info.prompt_tokens ?? undefined);
    const { type, message } = meta_info.finish_reason ?? {};
    if (type === 'abort') {
      const full = /context length|maximum allowed length/i.test(message ?? '');
      throw new EndpointError(full ? 'context' : 'unavailable', `the server ended the call: ${message ?? type}`);
    }
    const finish = finishOf(type);
    const sampled = meta_info.output_token_logprobs;
    if (!sampled)
      throw new EndpointError('protocol', 'the server returns no token ids: it lacks output_token_logprobs');
    const tokens = sampled.map(([, token]) => token);
    return {
      tokens,
      logprobs: wholeLogprobs(
        tokens,
        sampled.map(([logprob]) => logprob),
      ),
      finish,
    };
  },
};
