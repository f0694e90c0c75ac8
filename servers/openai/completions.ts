/**
 * `/v1/completions`: input is text or token ids; output is text and, on request, vLLM's token ids and
 * log-probabilities.
 */

import { randomUUID } from 'node:crypto';
import type { TokenLogprob } from '../../trainer/generate-request.ts';
import { samplingOf } from '../apis/fields.ts';
import type { PreparedCompletion } from './prepare-request.ts';
import { errorBody } from './api-error.ts';
import { promptLogprobsOf, type Reply, seedKey, type Send } from './reply.ts';
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

/** With `echo`, the prompt's tokens come first. The first token of a prompt has no log-probability. */
function logprobsOf(
  { tokens, logprobs, alternatives, text, promptLogprobs }: Answer,
  request: CompletionRequest,
  { tokenizer }: ServedModel,
  prompt: readonly number[],
) {
  const { logprobs: asked } = request;
  if (asked === undefined || asked === null) return null;
  const name = (id: number) => (request.return_tokens_as_token_ids ? `token_id:${id}` : tokenizer.decode([id]));
  const textOf = (part: readonly number[]) =>
    tokenizer.decode(part, { skipSpecialTokens: request.skip_special_tokens });
  const echoed = request.echo ? prompt : [];
  const ofPrompt = echoed.map((token, i) => promptLogprobs?.[i] ?? { token, logprob: null, top: [] });
  const topOfPrompt = ofPrompt.map(({ token, logprob, top }) =>
    logprob === null ? null : byName(top.slice(0, asked), { token, logprob }, name),
  );
  const top = tokens.map((token, i) => byName(alternatives[i] ?? [], { token, logprob: logprobs[i] ?? 0 }, name));
  const all = [...echoed, ...tokens];
  return {
    tokens: all.map(name),
    token_logprobs: [...ofPrompt.map(({ logprob }) => logprob), ...logprobs],
    top_logprobs: asked === 0 ? null : [...topOfPrompt, ...top],
    text_offset: textOffsets(all, request.echo ? `${textOf(prompt)}${text}` : text, textOf),
  };
}

function idsOf(request: CompletionRequest, prompt: readonly number[], { tokens }: Answer): object {
  return request.return_token_ids ? { token_ids: tokens, prompt_token_ids: prompt } : {};
}

function usageOf(prompts: ReadonlyArray<readonly number[]>, answers: readonly Answer[]) {
  const sum = (lists: ReadonlyArray<readonly number[]>) => lists.reduce((total, { length }) => total + length, 0);
  const [prompt, completion] = [sum(prompts), sum(answers.map(({ tokens }) => tokens))];
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

/** Number of the likeliest tokens that are needed for each of the prompt's; `undefined`: no log-probabilities of it. */
function promptAlternativesOf({ prompt_logprobs: asked, echo, logprobs }: CompletionRequest): number | undefined {
  const ofEcho = echo ? (logprobs ?? undefined) : undefined;
  if (asked === undefined || asked === null) return ofEcho;
  return Math.max(asked, ofEcho ?? 0);
}

/** Errors: those of the engine. */
export function completions(
  { request, prompts, maxTokens }: PreparedCompletion,
  model: ServedModel,
  signal: AbortSignal,
): Reply {
  const { n, stream, stop, echo } = request;
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
    sampling: { ...samplingOf(request), maxTokens: Math.max(1, maxTokens) },
    alternatives: request.logprobs ?? 0,
    promptAlternatives: promptAlternativesOf(request),
    stopTokenIds: request.stop_token_ids,
    stops: stop,
    skipSpecialTokens: request.skip_special_tokens,
    noiseKey: `${key}/${index}`,
  });
  const answerOf = async (asked: AnswerRequest): Promise<Answer> => {
    const answer = await sampleAnswer(model, asked, signal);
    // The engine samples at least one token.
    if (maxTokens > 0) return answer;
    return { ...answer, tokens: [], logprobs: [], alternatives: [], text: '', finish: 'length' };
  };
  const echoOf = (prompt: readonly number[]) =>
    echo ? model.tokenizer.decode(prompt, { skipSpecialTokens: request.skip_special_tokens }) : '';
  const nameOf = (id: number) => model.tokenizer.decode([id]);
  if (!stream) {
    return {
      body: async () => {
        const answers = await Promise.all(jobs.map((prompt, index) => answerOf(requestOf(prompt, index))));
        const choices = answers.map((answer, index) => {
          const prompt = jobs[index] ?? [];
          const asked = request.prompt_logprobs;
          const isAsked = asked !== undefined && asked !== null && answer.promptLogprobs !== undefined;
          const wanted = (answer.promptLogprobs ?? []).map(
            (one) => one && { ...one, top: one.top.slice(0, asked ?? 0) },
          );
          return {
            index,
            text: `${echoOf(prompt)}${answer.text}`,
            finish_reason: answer.finish,
            logprobs: logprobsOf(answer, request, model, prompt),
            ...idsOf(request, prompt, answer),
            ...(isAsked ? { prompt_logprobs: promptLogprobsOf(wanted, nameOf) } : {}),
          };
        });
        return { ...common, choices, usage: usageOf(prompts, answers) };
      },
    };
  }
  const hasUsage = request.stream_options?.include_usage ?? false;
  const streamed = async (send: Send) => {
    const sendText = (index: number, text: string, rest: object) => {
      const choices = [{ index, text, logprobs: null, finish_reason: null, ...rest }];
      send({ data: { ...common, choices, ...(hasUsage ? { usage: null } : {}) } });
    };
    const answers = await Promise.all(
      jobs.map(async (prompt, index) => {
        let sent = 0;
        const begin = echoOf(prompt);
        const onText = (text: string) => {
          const ready = `${begin}${tellable(text, stop)}`;
          if (ready.length > sent) sendText(index, ready.slice(sent), {});
          sent = Math.max(sent, ready.length);
        };
        const answer = await answerOf({ ...requestOf(prompt, index), onText });
        sendText(index, `${begin}${answer.text}`.slice(sent), {
          finish_reason: answer.finish,
          logprobs: logprobsOf(answer, request, model, prompt),
          ...idsOf(request, prompt, answer),
        });
        return answer;
      }),
    );
    if (hasUsage) send({ data: { ...common, choices: [], usage: usageOf(prompts, answers) } });
  };
  return { stream: streamed, failed: (refused) => [{ data: errorBody(refused) }], last: '[DONE]' };
}
