/**
 * vLLM's `/v1/completions`: a prompt of ids. The ids are returned by `return_token_ids` (0.10.2 and later), or as
 * `token_id:N` in the tokens of the log-probabilities by `return_tokens_as_token_ids`.
 *
 * Source: vllm-project/vllm, vllm/entrypoints/openai/completion/protocol.py. A missing sampling field is taken from the
 * model's `generation_config.json`, for example the repetition penalty, so every sampling field is set.
 */

import { z } from 'zod';
import { EndpointError } from '../endpoint-error.ts';
import { finishOf } from '../finish-words.ts';
import { checkPromptIds, id, readAs, sharedSampling, type TokenDialect, wholeLogprobs } from './token-call.ts';

const completion = z.object({
  choices: z
    .array(
      z.object({
        finish_reason: z.string().nullish(),
        token_ids: z.array(id).nullish(),
        prompt_token_ids: z.array(id).nullish(),
        logprobs: z.object({ tokens: z.array(z.string()), token_logprobs: z.array(z.number().nullable()) }).nullish(),
      }),
    )
    .min(1),
  usage: z.object({ prompt_tokens: z.int() }).nullish(),
});

function idsIn(tokens: readonly string[] | undefined): number[] {
  return (tokens ?? []).map((token) => {
    const found = /^token_id:(\d+)$/.exec(token)?.[1];
    if (found === undefined)
      throw new EndpointError(
        'protocol',
        'the server returns no token ids: it supports neither return_token_ids nor return_tokens_as_token_ids',
      );
    return Number(found);
  });
}

export const vllm: TokenDialect = {
  path: 'completions',
  native: false,
  // vLLM's default, `--logprobs-mode raw_logprobs`.
  logprobsAtTemperature: false,
  request: (model, call) => ({
    model,
    prompt: call.tokens,
    max_tokens: call.sampling.maxTokens,
    ...sharedSampling(call),
    seed: call.seed,
    n: 1,
    logprobs: 1,
    return_token_ids: true,
    return_tokens_as_token_ids: true,
    stream: false,
  }),
  read(body, call) {
    const { choices, usage } = readAs(completion, body, 'the completion');
    const [choice] = choices;
    if (!choice) throw new EndpointError('malformed', 'the completion has no choice');
    checkPromptIds(call.tokens, choice.prompt_token_ids ?? undefined, usage?.prompt_tokens);
    const finish = finishOf(choice.finish_reason);
    const tokens = choice.token_ids ?? idsIn(choice.logprobs?.tokens);
    return { tokens, logprobs: wholeLogprobs(tokens, choice.logprobs?.token_logprobs), finish };
  },
};
