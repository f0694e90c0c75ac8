/** `/v1/completions`: text or token ids in; text, and on request vLLM's token ids and log-probabilities, out. */

import { randomUUID } from 'node:crypto';
import type { TokenLogprob } from '../../trainer/generate-request.ts';
import { ApiError } from './api-error.ts';
import { type CompletionRequest, samplingOf } from './read-request.ts';
import { type Chunks, type Reply, seedKey, usageOf } from './reply.ts';
import { type Answer, type AnswerRequest, sampleAnswer, type ServedModel } from './sample-answer.ts';
import { tellable } from './text-stream.ts';

/** Answers of one request. */
const MOST_CHOICES = 64;
/** OpenAI's default of `max_tokens`. */
const DEFAULT_TOKENS = 16;

function promptsOf({ prompt }: CompletionRequest, { tokenizer }: ServedModel): ReadonlyArray<readonly number[]> {
  if (typeof prompt === 'string') return [tokenizer.encode(prompt)];
  if (typeof prompt[0] === 'number') return [prompt as number[]];
  return (prompt as Array<string | number[]>).map((one) => (typeof one === 'string' ? tokenizer.encode(one) : one));
}

/** By name; of ids that are written alike, the likeliest. The sampled token is always among them. */
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

function logprobsOf(
  { tokens, logprobs, alternatives }: Answer,
  request: CompletionRequest,
  { tokenizer }: ServedModel,
) {
  if (request.logprobs === undefined || request.logprobs === null) return null;
  const name = (id: number) => (request.return_tokens_as_token_ids ? `token_id:${id}` : tokenizer.decode([id]));
  const top =
    request.logprobs === 0
      ? null
      : tokens.map((token, i) => byName(alternatives[i] ?? [], { token, logprob: logprobs[i] ?? 0 }, name));
  return { tokens: tokens.map(name), token_logprobs: logprobs, top_logprobs: top, text_offset: [] };
}

function idsOf(request: CompletionRequest, prompt: readonly number[], { tokens }: Answer): object {
  return request.return_token_ids ? { token_ids: tokens, prompt_token_ids: prompt } : {};
}

/** Errors: `ApiError`; those of the engine. */
export function completions(request: CompletionRequest, model: ServedModel, signal: AbortSignal): Reply {
  const prompts = promptsOf(request, model);
  const { n, stream, stop, max_tokens: maxTokens } = request;
  if (prompts.length * n > MOST_CHOICES)
    throw new ApiError(400, `n: a request may ask for ${MOST_CHOICES} answers`, { param: 'n' });
  if (prompts.some((prompt) => prompt.length === 0))
    throw new ApiError(400, 'prompt: at least one token is needed', { param: 'prompt' });
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
    sampling: { ...samplingOf(request), maxTokens: maxTokens ?? DEFAULT_TOKENS },
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
