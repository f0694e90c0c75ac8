/** The dialects by protocol, and checks of their answers: a turn ends with a stop token and has nothing after it. */

import type { Offer } from '../../protocol/endpoint.ts';
import { EndpointError } from '../endpoint-error.ts';
import { llamaCpp } from './llama-cpp.ts';
import { sglang } from './sglang.ts';
import type { TokenAnswer, TokenCall, TokenDialect } from './token-call.ts';
import { vllm } from './vllm.ts';

const dialects: Readonly<Record<Extract<Offer, { mode: 'tokens' }>['protocol'], TokenDialect>> = {
  vllm,
  sglang,
  'llama.cpp': llamaCpp,
};

export function dialectOf(protocol: keyof typeof dialects): TokenDialect {
  return dialects[protocol];
}

/**
 * Cuts the answer after the first stop token: the policy may have stop tokens that the server does not know.
 * Errors: `EndpointError` of kind `protocol` if a turn has ended without a stop token.
 */
export function cutAtStop(answer: TokenAnswer, { stopTokenIds }: Pick<TokenCall, 'stopTokenIds'>): TokenAnswer {
  const at = answer.tokens.findIndex((token) => stopTokenIds.includes(token));
  if (at >= 0) {
    return {
      tokens: answer.tokens.slice(0, at + 1),
      logprobs: answer.logprobs?.slice(0, at + 1) ?? null,
      finish: 'stop',
    };
  }
  if (answer.finish !== 'stop') return answer;
  const last = answer.tokens.at(-1);
  throw new EndpointError(
    'protocol',
    `the turn ended after id ${last ?? 'none'}, which is not a stop token of the tokenizer ` +
      `(${stopTokenIds.join(', ')})`,
  );
}

/** Why an answer cannot be used for training; `undefined` if it can. */
export function whyUntrainable(
  answer: TokenAnswer,
  dialect: TokenDialect,
  { sampling }: Pick<TokenCall, 'sampling'>,
): string | undefined {
  if (answer.logprobs === null) return 'the server gave no log-probabilities';
  const { temperature } = sampling;
  if (dialect.logprobsAtTemperature || temperature === 0 || temperature === 1) return undefined;
  return `the server's log-probabilities are at temperature 1, not at ${temperature}`;
}
