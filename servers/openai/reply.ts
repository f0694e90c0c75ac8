/** The reply to a request: one document, or a stream of chunks. Also the parts that both kinds of completion share. */

import { randomUUID } from 'node:crypto';
import type { Answer } from './sample-answer.ts';

export type Chunks = (chunk: object) => void;

export type Reply = { readonly body: () => Promise<object> } | { readonly stream: (send: Chunks) => Promise<void> };

/**
 * The key of a request's noise. The same seed gives the same answer to the same prompt; without a seed, answers differ.
 */
export function seedKey(seed: number | null | undefined): string {
  return seed === undefined || seed === null ? `served ${randomUUID()}` : `seed ${seed}`;
}

export function usageOf(prompts: ReadonlyArray<readonly number[]>, answers: readonly Answer[]) {
  const sum = (lists: ReadonlyArray<readonly number[]>) => lists.reduce((total, { length }) => total + length, 0);
  const [prompt, completion] = [sum(prompts), sum(answers.map(({ tokens }) => tokens))];
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}
