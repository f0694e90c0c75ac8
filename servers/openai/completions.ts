/**
 * `/v1/completions`: input is text or token ids; output is text and, on request, vLLM's token ids and
 * log-probabilities.
 */

import { randomUUID } from 'node:crypto';
import type { TokenLogprob } from '../../trainer/generate-request.ts';
import type { PreparedCompletion } from './prepare-request.ts';
import { samplingOf } from './read-request.ts';
import { type Chunks, type Reply, seedKey, usageOf } from './reply.ts';
import { type Answer, type AnswerRequest, sampleAnswer, type ServedModel } from './sample-answer.ts';
import { tellable } from '../apis/text-stream.ts';

type CompletionRequest = PreparedCompletion['request'];

/**
 * Log-probabilities by token name; if ids have the same name, the most likely one. Always includes the sampled token.
 */
function byName(
  likeliest: readonly TokenLogprob[],
  sampled: TokenLogprob,
  name: (id: number) => string,
): Record<string, number> {
  const named = new Map<string, number>();
  for (const { token, logprob } of [...likeliest, sampled])
    if (!named.has(name(token))) named.set(name(token), logprob);
  return Object.fromEntries(named);
}

const charactersOf = (text: string) => Array.from(text).length;

/**
 * Number of tokens that are decoded again with the next one. A character has at most four bytes, so at most four
 * tokens.
 */
const WINDOW = 8;

/** Start of the token that follows `before`, in the text `both` of both. In characters. */
function beginOf(before: string, both: string): number {
  let kept = before;
  // A character of several tokens is U+FFFD until its last token; invalid bytes stay U+FFFD.
  if (both.length <= before.length) kept = before.replace(/\uFFFD$/u, '');
  else while (!both.startsWith(kept)) kept = kept.slice(0, -1);
  return charactersOf(kept);
}

/**
 * Start of each token in `text`, in characters (code points, as in OpenAI's API). Tokens that were cut off start at its
 * end.
 */
export function textOffsets(
  tokens: readonly number[],
  text: string,
  textOf: (tokens: readonly number[]) => string,
): number[] {
  const end = charactersOf(text);
  let at = 0;
  return tokens.map((_, i) => {
    const from = Math.max(0, i - WINDOW);
    const upTo = (length: number) => textOf(tokens.slice(from, length));
    if (i > 0) at += beginOf(upTo(i), upTo(i + 1)) - beginOf(upTo(i - 1), upTo(i));
    return Math.min(at, end);
  });
}

function logprobsOf(
  { tokens, logprobs, alternatives, text }: Answer,
  request: CompletionRequest,
  { tokenizer }: ServedModel,
) {
  if (request.logprobs === undefined || request.logprobs === null) return null;
  const name = (id: number) => (request.return_tokens_as_token_ids ? `token_id:${id}` : tokenizer.decode([id]));
  const top =
    request.logprobs === 0
      ? null
      : tokens.map((token, i) => byName(alternatives[i] ?? [], { token, logprob: logprobs[i] ?? 0 }, name));
  const textOf = (part: readonly number[]) =>
    tokenizer.decode(part, { skipSpecialTokens: request.skip_special_tokens });
  const offsets = textOffsets(tokens, text, textOf);
  return { tokens: tokens.map(name), token_logprobs: logprobs, top_logprobs: top, text_offset: offsets };
}

function idsOf(request: CompletionRequest, prompt: readonly number[], { tokens }: Answer): object {
  return request.return_token_ids ? { token_ids: tokens, prompt_token_ids: prompt } : {};
}

/** Errors: those of the engine. */
export function completions(
  { request, prompts, maxTokens }: PreparedCompletion,
  model: ServedModel,
  signal: AbortSignal,
): Reply {
  const { n, stream, stop } = request;
  const jobs = prompts.flatMap((prompt) => Array.from({ length: n }, () => prompt));
  const key = seedKey(request.seed);
  const common = {
    id: `cmpl-${randomUUID()}`,
    object: 'text_completion',
    created: Math.floor(Date.now() / 1000),
    model: model.name,
  };
  const requestOf = (prompt: readonly number[], index: number): AnswerRequest => ({
    prompt,
    sampling: { ...samplingOf(request), maxTokens },
    alternatives: request.logprobs ?? 0,
    stopTokenIds: request.stop_token_ids,
    stops: stop,
    skipSpecialTokens: request.skip_special_tokens,
    noiseKey: `${key}/${index}`,
  });
  if (!stream) {
    return {
      body: async () => {
        const answers = await Promise.all(
          jobs.map((prompt, index) => sampleAnswer(model, requestOf(prompt, index), signal)),
        );
        const choices = answers.map((answer, index) => ({
          index,
          text: answer.text,
          finish_reason: answer.finish,
          logprobs: logprobsOf(answer, request, model),
          ...idsOf(request, jobs[index] ?? [], answer),
        }));
        return { ...common, choices, usage: usageOf(prompts, answers) };
      },
    };
  }
  const streamed = async (send: Chunks) => {
    const told = (index: number, text: string, rest: object) =>
      send({ ...common, choices: [{ index, text, logprobs: null, finish_reason: null, ...rest }] });
    const answers = await Promise.all(
      jobs.map(async (prompt, index) => {
        let sent = 0;
        const onText = (text: string) => {
          const ready = tellable(text, stop);
          if (ready.length > sent) told(index, ready.slice(sent), {});
          sent = Math.max(sent, ready.length);
        };
        const answer = await sampleAnswer(model, { ...requestOf(prompt, index), onText }, signal);
        told(index, answer.text.slice(sent), {
          finish_reason: answer.finish,
          logprobs: logprobsOf(answer, request, model),
          ...idsOf(request, prompt, answer),
        });
        return answer;
      }),
    );
    if (request.stream_options?.include_usage) send({ ...common, choices: [], usage: usageOf(prompts, answers) });
  };
  return { stream: streamed };
}
