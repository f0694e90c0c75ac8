/**
 * OpenAI's `/v1/chat/completions` with tools: messages out, one assistant message back, kept as it came. No ids, so
 * nothing of it can be trained on.
 *
 * Source: platform.openai.com/docs/api-reference/chat/create; the same fields in vLLM, SGLang and llama.cpp.
 */

import type { ChatTurn, ChatAnswer, Endpoint } from '../protocol/endpoint.ts';
import { z } from 'zod';
import { type Message, readArguments, toolCallOf, type ToolSchema, type ParsedTurn } from '../protocol/message.ts';
import { isTooDeep } from '../protocol/written-json.ts';
import type { SamplingParameters } from '../protocol/sampling.ts';
import { EndpointError } from './endpoint-error.ts';
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

/** A turn as it is sent back. One whose calls could not be read goes as text: many servers refuse arguments that are no JSON. */
export function chatTurnMessage(turn: ChatTurn, readable: boolean): ChatMessage {
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

/** What follows a turn: tools answer its calls in their order; anything else is said as it is. */
export function chatAnswerMessages(turn: ChatTurn, answers: readonly Message[]): ChatMessage[] {
  return answers.map((message, i) =>
    message.role === 'tool'
      ? { role: 'tool', tool_call_id: turn.toolCalls[i]?.id ?? `call_${i}`, content: message.content }
      : { role: message.role, content: message.content },
  );
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

/** About as many characters of JSON make a token: of prose there are more, of code and other scripts fewer. */
const CHARACTERS_A_TOKEN = 4;

/** Tokens of the prompt, about: of messages and tools as they are sent. */
export function promptTokensAbout({ messages, tools }: Pick<ChatCall, 'messages' | 'tools'>): number {
  return Math.ceil(JSON.stringify([messages, tools]).length / CHARACTERS_A_TOKEN);
}

/** Tokens of the prompt as the server counted them; `undefined` where it does not say. */
export function promptTokensIn(body: unknown): number | undefined {
  // Who sends none did not count: each prompt has some.
  return z.object({ usage: usageSchema }).safeParse(body).data?.usage.prompt_tokens || undefined;
}

/** Errors: `EndpointError` of kind `protocol`. */
export function readChat(body: unknown): ChatAnswer {
  const { choices, usage } = readAs(chatCompletion, body, 'the chat completion');
  const [choice] = choices;
  if (!choice) throw new EndpointError('protocol', 'the chat completion has no choice');
  const { message, finish_reason: reason } = choice;
  const refusal = message.refusal ?? '';
  const counted = usage ? { promptTokens: usage.prompt_tokens, completionTokens: usage.completion_tokens } : null;
  // Of arguments that are no text there would be no JSON to keep.
  const isUnreadable = message.tool_calls?.some(({ function: { arguments: given } }) => isTooDeep(given)) ?? false;
  if (isUnreadable) return { turn: { content: '', toolCalls: [] }, finish: 'unreadable', usage: counted };
  const filtered = reason === 'content_filter' || refusal !== '';
  const toolCalls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: given } }, i) => ({
    // Some servers give no id, or the empty one.
    id: id || `call_${i}`,
    name,
    // Sent back as it is kept: servers that parse it want an object.
    arguments: typeof given === 'string' ? given.trim() || '{}' : JSON.stringify(given ?? {}),
  }));
  // The second is vLLM's name for it.
  const reasoning = message.reasoning_content || message.reasoning;
  const turn: ChatTurn = {
    content: message.content ?? '',
    toolCalls,
    ...(refusal === '' ? {} : { refusal }),
    ...(reasoning ? { reasoning } : {}),
  };
  return { turn, finish: filtered ? 'filtered' : reason === 'length' ? 'length' : 'stop', usage: counted };
}

/** A turn as the agent loop reads it: all of its calls, or what is wrong with the first that cannot be read. */
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
