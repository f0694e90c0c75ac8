/**
 * llama.cpp's own `/completion`: a prompt of ids, `return_tokens` for the sampled ids, `n_probs` for their
 * log-probabilities. It ends a turn only at the end tokens of the model file; `cutAtStop` handles the policy's.
 *
 * Source: ggml-org/llama.cpp, tools/server/README.md; and server-context.cpp and server-task.cpp (the copy in
 * llama-cpp-python 0.3.36): a list of numbers is used unchanged, and `tokens` includes the end token. Log-probabilities
 * are the softmax before samplers. They may be missing for tokens that end inside a character; then the answer has
 * none.
 */

import { z } from 'zod';
import { EndpointError } from '../endpoint-error.ts';
import { checkPromptIds, id, readAs, type TokenDialect, wholeLogprobs } from './token-call.ts';

const completion = z.object({
  tokens: z.array(id).nullish(),
  tokens_evaluated: z.int().nullish(),
  truncated: z.boolean().nullish(),
  stop_type: z.string().nullish(),
  completion_probabilities: z.array(z.object({ id, logprob: z.number().nullish() })).nullish(),
});

export const llamaCpp: TokenDialect = {
  path: 'completion',
  native: true,
  logprobsAtTemperature: false,
  request: (_model, { tokens, sampling, seed }) => ({
    prompt: tokens,
    n_predict: sampling.maxTokens,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    // The complete chain, so that settings of the server's start, such as penalties, min-p or DRY, do not apply.
    samplers: ['top_k', 'top_p', 'temperature'],
    seed,
    n_probs: 1,
    return_tokens: true,
    cache_prompt: true,
    stream: false,
  }),
  read(body, call) {
    const answer = readAs(completion, body, 'the completion');
    const tokens = answer.tokens ?? [];
    if (call.sampling.maxTokens > 0 && tokens.length === 0) {
      throw new EndpointError('protocol', 'the server returns no token ids: it does not support return_tokens');
    }
    if (answer.stop_type === 'none') throw new EndpointError('unavailable', 'the server did not finish the answer');
    checkPromptIds(call.tokens, undefined, answer.tokens_evaluated ?? undefined);
    const probabilities = answer.completion_probabilities ?? [];
    const same = probabilities.length === tokens.length && probabilities.every((one, i) => one.id === tokens[i]);
    const finish = answer.truncated || answer.stop_type === 'limit' ? 'length' : 'stop';
    return {
      tokens,
      logprobs: same
        ? wholeLogprobs(
            tokens,
            probabilities.map(({ logprob }) => logprob),
          )
        : null,
      finish,
    };
  },
};
