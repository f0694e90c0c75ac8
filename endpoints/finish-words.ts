/**
 * What a server's word for the end of an answer means. A word counts only if it is known or if the user has named it:
 * the answer of a server that failed is never graded as the policy's.
 *
 * Sources: OpenAI (stop, length, tool_calls, function_call, content_filter); vLLM, v1/engine (stop, length, repetition;
 * abort and error are failures); SGLang, entrypoints/openai/protocol.py (those of OpenAI; abort is a failure); TGI
 * (length, eos_token, stop_sequence); llama.cpp, tools/server (stop, length, tool_calls); OpenRouter (those of OpenAI;
 * error is a failure); Together (eos); Mistral (model_length; error is a failure); DeepSeek
 * (insufficient_system_resource is a failure); Anthropic, through proxies (end_turn, stop_sequence, tool_use,
 * max_tokens, model_context_window_exceeded, refusal); Gemini, through proxies (STOP, MAX_TOKENS, SAFETY and others).
 */

import { EndpointError } from './endpoint-error.ts';
import type { FinishWords } from '../protocol/endpoint.ts';

/** `stop`: the policy ended its answer. `length`: it was cut at a limit. `filtered`: a filter removed it. */
export type Finish = 'stop' | 'length' | 'filtered';

const MEANINGS: Readonly<Record<Finish, readonly string[]>> = {
  stop: ['stop', 'tool_calls', 'function_call', 'eos', 'eos_token', 'stop_sequence', 'end_turn', 'tool_use'],
  // Repetition: vLLM cuts an answer that repeats itself, if the request allows it.
  length: ['length', 'max_tokens', 'model_length', 'model_context_window_exceeded', 'repetition'],
  filtered: ['content_filter', 'refusal', 'safety', 'recitation', 'blocklist', 'prohibited_content', 'spii'],
};

const KNOWN = new Map(
  Object.entries(MEANINGS).flatMap(([finish, words]) => words.map((word) => [word, finish as Finish] as const)),
);

/** Words of servers that failed. They need no advice. */
const FAILURES = ['error', 'abort', 'aborted', 'cancelled', 'insufficient_system_resource'];

/** Longest part of an unknown word that a message shows. */
const SHOWN = 60;

/**
 * The meaning of `word`; `own` goes first, with the word `null` for a missing one. Case does not matter to known words.
 * Errors: `EndpointError` of kind `unavailable` if the server failed, or if the word is unknown.
 */
export function finishOf(word: string | null | undefined, own: FinishWords = {}): Finish {
  const said = word ?? 'null';
  const named = Object.hasOwn(own, said) ? own[said] : undefined;
  if (named !== undefined) return named;
  const finish = KNOWN.get(said.toLowerCase());
  if (finish !== undefined) return finish;
  const shown =
    word === null || word === undefined ? 'no finish_reason' : `finish_reason ${JSON.stringify(said.slice(0, SHOWN))}`;
  const advice = FAILURES.includes(said.toLowerCase())
    ? ''
    : `; if such an answer is whole, set of the endpoint: mode: chat, ` +
      `finishWords: { ${JSON.stringify(said.slice(0, SHOWN))}: stop }`;
  throw new EndpointError('unavailable', `the server did not finish the answer (${shown})${advice}`);
}
