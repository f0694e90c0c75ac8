/**
 * The schema of OpenAI's `/v1/completions`, with vLLM's fields for token ids. A field without an effect here is refused
 * by its name, unless its value asks for the default behaviour.
 */

import { z } from 'zod';
import { plainOf } from '../../protocol/written-json.ts';
import { alternatives, flag, neutral, readAs, refuse } from '../apis/fields.ts';
import { checkStreamed, commonFields } from '../apis/openai-chat.ts';

const isListOf = <T>(value: unknown, isOne: (one: unknown) => one is T): value is T[] =>
  Array.isArray(value) && value.length > 0 && value.every(isOne);
const isId = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isText = (value: unknown): value is string => typeof value === 'string';
const isIds = (value: unknown): value is number[] => isListOf(value, isId);

/** One issue for the whole prompt, however many of its ids are invalid. */
const prompt = z.custom<string | number[] | string[] | number[][]>(
  (value) => isText(value) || isIds(value) || isListOf(value, isText) || isListOf(value, isIds),
  'give a text, token ids, or a list of one kind',
);

const completionSchema = z.strictObject({
  ...commonFields,
  prompt,
  /** 0: the prompt alone, with `echo`. */
  max_tokens: z.int().min(0).nullish(),
  /** Asks for the sampled tokens' log-probabilities, and those of this many most likely tokens at each position. */
  logprobs: alternatives.nullish(),
  /** The text, and its log-probabilities, begin with the prompt. */
  echo: flag(false),
  best_of: neutral(1),
  suffix: z.literal('').nullish(),
});

export type CompletionRequest = z.output<typeof completionSchema>;

/** `body`: the result of `readWritten`. Errors: `ApiError`. */
export function readCompletion(body: unknown): CompletionRequest {
  const request = readAs(completionSchema, plainOf(body));
  if (request.max_tokens === 0 && !request.echo) refuse('max_tokens', 'give at least 1, or echo: true too');
  checkStreamed(request);
  return request;
}
