/** The reply to a request: one document, or a stream of events. Also the parts that all kinds of reply share. */

import { randomUUID } from 'node:crypto';
import type { PromptLogprob } from '../../trainer/generate-request.ts';
import type { AnswerMeta, ApiEvent } from '../apis/chat.ts';
import type { ApiError } from '../http/api-error.ts';

export type Send = (event: ApiEvent) => void;

export type Reply =
  | { readonly body: () => Promise<object> }
  | {
      readonly stream: (send: Send) => Promise<void>;
      /** The last events of a stream that fails after it began. */
      readonly failed: (refused: ApiError) => readonly ApiEvent[];
      /** The line of data after the last event. */
      readonly last?: string;
    };

/**
 * The key of a request's noise. The same seed gives the same answer to the same prompt; without a seed, answers differ.
 */
export function seedKey(seed: number | null | undefined): string {
  return seed === undefined || seed === null ? `served ${randomUUID()}` : `seed ${seed}`;
}

export const newMeta = (model: { readonly name: string }): AnswerMeta => ({
  id: randomUUID(),
  created: Math.floor(Date.now() / 1000),
  model: model.name,
});

/**
 * vLLM's `prompt_logprobs`: null for the first token; else tokens by id. The rank of a token is known if it is one of
 * the top.
 */
export function promptLogprobsOf(
  all: ReadonlyArray<PromptLogprob | null>,
  nameOf: (id: number) => string,
): ReadonlyArray<object | null> {
  return all.map((one) => {
    if (one === null) return null;
    const own = { token: one.token, logprob: one.logprob };
    const isTop = one.top.some(({ token }) => token === one.token);
    const ranked = one.top.map((top, i) => ({ ...top, rank: i + 1 }));
    const shown = isTop ? ranked : [...ranked, { ...own, rank: null }];
    return Object.fromEntries(
      shown.map(({ token, logprob, rank }) => [token, { logprob, rank, decoded_token: nameOf(token) }]),
    );
  });
}
