/**
 * `/v1/chat/completions`: messages and tools are rendered by the policy's chat template, and tool calls are parsed in
 * that template's format. A call that cannot be parsed stays text, so that the client sees the policy's answer.
 */

import { randomUUID } from 'node:crypto';
import { argumentsText } from '../../protocol/message.ts';
import { opensReasoning, parseTurn } from '../../agents/codecs/codec.ts';
import { codecOfTemplate } from '../../agents/codecs/codecs.ts';
import type { TokenLogprob } from '../../trainer/generate-request.ts';
import type { PreparedChat, PromptModel } from './prepare-request.ts';
import { samplingOf } from './read-request.ts';
import { type Chunks, type Reply, seedKey, usageOf } from './reply.ts';
import { type Answer, type AnswerRequest, sampleAnswer, type ServedModel } from './sample-answer.ts';
import { tellable } from '../apis/text-stream.ts';

export interface ChatModel extends ServedModel {
  readonly tokenizer: ServedModel['tokenizer'] & PromptModel['tokenizer'] & { readonly chatTemplate: string };
}

interface Said {
  readonly content: string;
  readonly calls: ReadonlyArray<{
    readonly id: string;
    readonly type: 'function';
    readonly function: { readonly name: string; readonly arguments: string };
  }>;
  readonly finish: 'stop' | 'length' | 'tool_calls';
}

/** `inReasoning`: the prompt has opened the reasoning. */
function saidBy({ text, finish }: Answer, hasTools: boolean, inReasoning: boolean, { tokenizer }: ChatModel): Said {
  const parsed =
    hasTools && finish === 'stop'
      ? parseTurn(text, codecOfTemplate(tokenizer.chatTemplate), { inReasoning })
      : undefined;
  if (parsed?.kind !== 'calls') return { content: text, calls: [], finish };
  const calls = parsed.calls.map((call) => ({
    id: `call_${randomUUID()}`,
    type: 'function' as const,
    function: { name: call.name, arguments: argumentsText(call) },
  }));
  return { content: parsed.content, calls, finish: 'tool_calls' };
}

function logprobsOf(
  { tokens, logprobs, alternatives }: Answer,
  request: PreparedChat['request'],
  { tokenizer }: ChatModel,
) {
  if (!request.logprobs) return null;
  const told = ({ token: id, logprob }: TokenLogprob) => {
    const token = tokenizer.decode([id]);
    return { token, logprob, bytes: [...Buffer.from(token)] };
  };
  const content = tokens.map((token, i) => ({
    ...told({ token, logprob: logprobs[i] ?? 0 }),
    top_logprobs: (alternatives[i] ?? []).map(told),
  }));
  return { content, refusal: null };
}

/** Tokens of a prompt's end that show whether it opens the reasoning. */
const PROMPT_END = 8;

/** Errors: those of the engine. */
export function chatCompletions(
  { request, prompt, hasTools, maxTokens }: PreparedChat,
  model: ChatModel,
  signal: AbortSignal,
): Reply {
  const { n, stop, stream } = request;
  const key = seedKey(request.seed);
  const inReasoning = hasTools && opensReasoning(model.tokenizer.decode(prompt.slice(-PROMPT_END)));
  const common = { id: `chatcmpl-${randomUUID()}`, created: Math.floor(Date.now() / 1000), model: model.name };
  const requestOf = (index: number): AnswerRequest => ({
    prompt,
    sampling: { ...samplingOf(request), maxTokens },
    alternatives: request.top_logprobs,
    stopTokenIds: request.stop_token_ids,
    stops: stop,
    // Tool calls may be written with special tokens.
    skipSpecialTokens: !hasTools && request.skip_special_tokens,
    noiseKey: `${key}/${index}`,
  });
  const choices = Array.from({ length: n }, (_, index) => index);
  if (!stream) {
    return {
      body: async () => {
        const answers = await Promise.all(choices.map((index) => sampleAnswer(model, requestOf(index), signal)));
        const told = answers.map((answer, index) => {
          const { content, calls, finish } = saidBy(answer, hasTools, inReasoning, model);
          const message = { role: 'assistant', content, ...(calls.length > 0 ? { tool_calls: calls } : {}) };
          const ids = request.return_token_ids ? { token_ids: answer.tokens } : {};
          return { index, message, logprobs: logprobsOf(answer, request, model), finish_reason: finish, ...ids };
        });
        const ids = request.return_token_ids ? { prompt_token_ids: prompt } : {};
        return { ...common, object: 'chat.completion', choices: told, usage: usageOf([prompt], answers), ...ids };
      },
    };
  }
  // From where a call may start, text is sent only when the call is complete.
  const marks = [...stop, ...(hasTools ? codecOfTemplate(model.tokenizer.chatTemplate).marks : [])];
  const streamed = async (send: Chunks) => {
    const told = (index: number, delta: object, rest: object = {}) =>
      send({
        ...common,
        object: 'chat.completion.chunk',
        choices: [{ index, delta, logprobs: null, finish_reason: null, ...rest }],
      });
    const answers = await Promise.all(
      choices.map(async (index) => {
        let sent: string | undefined;
        const tell = (text: string) => {
          // Sent after the first sampled token: until then, a refusal can still have its own status.
          if (sent === undefined) told(index, { role: 'assistant', content: '' });
          const before = sent ?? '';
          if (text.length > before.length) told(index, { content: text.slice(before.length) });
          sent = text.length > before.length ? text : before;
        };
        // The text beside a tool call is sent without surrounding spaces.
        const onText = (text: string) => tell(hasTools ? tellable(text, marks).trim() : tellable(text, marks));
        const answer = await sampleAnswer(model, { ...requestOf(index), onText }, signal);
        const { content, calls, finish } = saidBy(answer, hasTools, inReasoning, model);
        tell(hasTools ? content.trim() : content);
        if (calls.length > 0) told(index, { tool_calls: calls.map((call, k) => ({ index: k, ...call })) });
        told(index, {}, { finish_reason: finish, logprobs: logprobsOf(answer, request, model) });
        return answer;
      }),
    );
    if (request.stream_options?.include_usage)
      send({ ...common, object: 'chat.completion.chunk', choices: [], usage: usageOf([prompt], answers) });
  };
  return { stream: streamed };
}
