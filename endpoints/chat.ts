/**
 * OpenAI's `/v1/chat/completions` with tools: sends messages, and receives one assistant message, which is stored
 * unchanged. It has no token ids, so it cannot be used for training.
 *
 * Source: platform.openai.com/docs/api-reference/chat/create; the same fields in vLLM, SGLang and llama.cpp.
 */

import type { ChatTurn, ChatAnswer, Endpoint, FinishWords } from '../protocol/endpoint.ts';
import { z } from 'zod';
import { type Message, readArguments, toolCallOf, type ToolSchema, type ParsedTurn } from '../protocol/message.ts';
import { isTooDeep } from '../protocol/written-json.ts';
import type { SamplingParameters } from '../protocol/sampling.ts';
import { EndpointError } from './endpoint-error.ts';
import { finishOf } from './finish-words.ts';
import { readAs } from './tokens/token-call.ts';

const toolCall = z.object({
  id: z.string().nullish(),
  type: z.string().nullish(),
  function: z.object({
    name: z.string(),
    arguments: z.union([z.string(), z.record(z.string(), z.unknown())]).nullish(),
  }),
});

const usageSchema = z.object({ prompt_tokens: z.int().min(0), completion_tokens: z.int().min(0) });

const chatCompletion = z.object({
  choices: z
    .array(
      z.object({
        finish_reason: z.string().nullish(),
        message: z.object({
          content: z.string().nullish(),
          refusal: z.string().nullish(),
          reasoning_content: z.string().nullish(),
          reasoning: z.string().nullish(),
          tool_calls: z.array(toolCall).nullish(),
        }),
      }),
    )
    .min(1),
  usage: usageSchema.nullish(),
});

type ChatMessage = Readonly<Record<string, unknown>>;

/**
 * The message that sends a turn back. If its calls could not be parsed, they are sent as text: many servers reject
 * arguments that are not JSON. `reasons`: with its reasoning, which servers leave out otherwise.
 */
export function chatTurnMessage(turn: ChatTurn, readable: boolean, reasons = false): ChatMessage {
  const said = chatTurnText(turn, readable);
  return reasons && turn.reasoning !== undefined ? { ...said, reasoning_content: turn.reasoning } : said;
}

function chatTurnText(turn: ChatTurn, readable: boolean): ChatMessage {
  if (turn.toolCalls.length === 0) return { role: 'assistant', content: turn.content };
  if (!readable) {
    const calls = turn.toolCalls.map((call) => `${call.name} ${call.arguments}`);
    return { role: 'assistant', content: [turn.content, ...calls].filter((part) => part !== '').join('\n') };
  }
  const calls = turn.toolCalls.map(({ id, name, arguments: text }) => ({
    id,
    type: 'function',
    function: { name, arguments: text },
  }));
  return { role: 'assistant', content: turn.content, tool_calls: calls };
}

/** The messages after a turn: the tools' answers in the order of the calls; other messages are sent unchanged. */
export function chatAnswerMessages(turn: ChatTurn, answers: readonly Message[]): ChatMessage[] {
  return answers.map((message, i) =>
    message.role === 'tool'
      ? { role: 'tool', tool_call_id: turn.toolCalls[i]?.id ?? `call_${i}`, content: message.content }
      : { role: message.role, content: message.content },
  );
}

/** An image as it is sent. */
export interface ChatImage {
  readonly mediaType: string;
  readonly bytes: Uint8Array;
}

/**
 * Images of the tools' answers before it, as a message of the user: OpenAI's schema has no images in a tool's answer.
 */
export function chatImagesMessage(images: readonly ChatImage[]): ChatMessage {
  const parts = images.map(({ mediaType, bytes }) => ({
    type: 'image_url',
    image_url: { url: `data:${mediaType};base64,${Buffer.from(bytes).toString('base64')}` },
  }));
  const text = images.length === 1 ? 'The image of the answer above.' : 'The images of the answers above, in order.';
  return { role: 'user', content: [{ type: 'text', text }, ...parts] };
}

export interface ChatCall {
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ToolSchema[];
  readonly sampling: SamplingParameters;
}

export function chatRequest(endpoint: Endpoint, { messages, tools, sampling }: ChatCall): Record<string, unknown> {
  return {
    model: endpoint.model,
    messages,
    ...(tools.length > 0 ? { tools } : {}),
    temperature: sampling.temperature,
    top_p: sampling.topP,
    [endpoint.maxTokensField]: sampling.maxTokens,
    stream: false,
    ...endpoint.extraBody,
  };
}

/** Estimated characters of JSON per token: prose has more, code and other scripts have fewer. */
const CHARACTERS_A_TOKEN = 4;

/** Estimated tokens of an image, whatever its bytes. */
const TOKENS_AN_IMAGE = 1000;

/** Estimated tokens of the prompt: of messages and tools as they are sent. */
export function promptTokensAbout({ messages, tools }: Pick<ChatCall, 'messages' | 'tools'>): number {
  let images = 0;
  const text = JSON.stringify([messages, tools], (_, value: unknown) => {
    if (typeof value !== 'string' || !value.startsWith('data:image/')) return value;
    images += 1;
    return '';
  });
  return Math.ceil(text.length / CHARACTERS_A_TOKEN) + images * TOKENS_AN_IMAGE;
}

/** Tokens of the prompt that the server reports; `undefined` if it reports none. */
export function promptTokensIn(body: unknown): number | undefined {
  // 0 means that the server did not count: every prompt has tokens.
  return z.object({ usage: usageSchema }).safeParse(body).data?.usage.prompt_tokens || undefined;
}

/**
 * `words`: the endpoint's `finishWords`.
 * Errors: `EndpointError` of kind `malformed`; `unavailable` if the server did not finish the answer, or gave none.
 */
export function readChat(body: unknown, words?: FinishWords): ChatAnswer {
  const { choices, usage } = readAs(chatCompletion, body, 'the chat completion');
  const [choice] = choices;
  if (!choice) throw new EndpointError('malformed', 'the chat completion has no choice');
  const { message, finish_reason: reason } = choice;
  const finish = finishOf(reason, words);
  const refusal = message.refusal ?? '';
  const counted = usage ? { promptTokens: usage.prompt_tokens, completionTokens: usage.completion_tokens } : null;
  // Arguments given as an object that is nested too deep cannot be stored as JSON.
  const isUnreadable = message.tool_calls?.some(({ function: { arguments: given } }) => isTooDeep(given)) ?? false;
  if (isUnreadable) return { turn: { content: '', toolCalls: [] }, finish: 'unreadable', usage: counted };
  const toolCalls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: given } }, i) => ({
    // Some servers send no id, or an empty one.
    id: id || `call_${i}`,
    name,
    // Stored in the form that is sent back: servers that parse it expect an object.
    arguments: typeof given === 'string' ? given.trim() || '{}' : JSON.stringify(given ?? {}),
  }));
  // `reasoning` is vLLM's name for it.
  const reasoning = message.reasoning_content || message.reasoning;
  const turn: ChatTurn = {
    content: message.content ?? '',
    toolCalls,
    ...(refusal === '' ? {} : { refusal }),
    ...(reasoning ? { reasoning } : {}),
  };
  const isEmpty = toolCalls.length === 0 && refusal === '' && !reasoning && finish === 'stop';
  // A policy that says nothing has sampled the end of its turn. Servers that warm up or fail have sampled nothing.
  if (isEmpty && typeof message.content !== 'string' && !counted?.completionTokens)
    throw new EndpointError(
      'unavailable',
      `the server sampled nothing (content, tool_calls and refusal are empty, ` +
        `${counted ? 'usage.completion_tokens is 0' : 'and no usage is given'})`,
    );
  return { turn, finish: refusal === '' ? finish : 'filtered', usage: counted };
}

/** Parses a turn for the agent loop: all of its calls, or the error of the first one that cannot be parsed. */
export function parseChatTurn(turn: ChatTurn): ParsedTurn {
  const { content, toolCalls } = turn;
  if (toolCalls.length === 0) return { kind: 'no-call', content: content || (turn.refusal ?? '') };
  const calls = [];
  for (const { name, arguments: text } of toolCalls) {
    const given = readArguments(text);
    if (typeof given === 'string') {
      const said = String(chatTurnMessage(turn, false)['content']);
      return { kind: 'malformed', content: said, error: `In the call of ${name}, its arguments are ${given}.` };
    }
    calls.push(toolCallOf(name, given));
  }
  return { kind: 'calls', content, calls };
}
