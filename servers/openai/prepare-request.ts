/**
 * From a request's body to what is sampled: JSON, fields, chat template, token ids. All that takes longer the more a
 * caller sends is done here, so that a thread can do it; what comes out fits the context.
 */

import { type Message, readArguments, toolCallOf } from '../../protocol/message.ts';
import { memberOf, readWritten } from '../../protocol/written-json.ts';
import type { ChatTokenizer } from '../../agents/render-conversation.ts';
import { ApiError } from '../http/api-error.ts';
import { contextExceeded } from './api-error.ts';
import { type ChatRequest, type CompletionRequest, readChatCompletion, readCompletion } from './read-request.ts';

export type RequestKind = 'completion' | 'chat';

/** What a prompt is made with. */
export interface PromptModel {
  readonly name: string;
  /** Prompt and answer together. */
  readonly contextTokens: number;
  readonly tokenizer: Pick<ChatTokenizer, 'encode' | 'renderChat'> & {
    /** The most bytes that one token stands for. */
    readonly longestToken: number;
  };
}

export interface PreparedCompletion {
  readonly kind: 'completion';
  readonly request: Omit<CompletionRequest, 'prompt'>;
  readonly prompts: ReadonlyArray<readonly number[]>;
  readonly maxTokens: number;
}
export interface PreparedChat {
  readonly kind: 'chat';
  readonly request: Omit<ChatRequest, 'messages' | 'tools'>;
  readonly prompt: readonly number[];
  /** Whether the policy may call one. */
  readonly hasTools: boolean;
  /** `undefined`: as many as the context holds. */
  readonly maxTokens: number | undefined;
}
export type Prepared = PreparedCompletion | PreparedChat;

/** Errors: `ApiError` 404 for another one. */
export function checkModel(asked: string, { name }: Pick<PromptModel, 'name'>): void {
  if (asked === name) return;
  throw new ApiError(404, `The model ${JSON.stringify(asked.slice(0, 200))} does not exist.`, {
    param: 'model',
    code: 'model_not_found',
  });
}

/** Answers of one request. */
const MOST_CHOICES = 64;
/** OpenAI's default of `max_tokens`. */
const DEFAULT_TOKENS = 16;

/** Errors: `ApiError` for a prompt that leaves no room for its answer. */
function checkFits(tokens: number, answer: number, { contextTokens }: PromptModel): void {
  if (tokens + answer > contextTokens) throw contextExceeded(contextTokens, tokens, answer);
}

/**
 * Errors: `ApiError`, before it is encoded, for a text of more bytes than the context's tokens can stand for. A tokenizer
 * that drops text (runs of spaces) could hold more; vLLM refuses by the same measure.
 */
function encode(text: string, answer: number, model: PromptModel): number[] {
  const { tokenizer } = model;
  checkFits(Math.ceil(Buffer.byteLength(text) / tokenizer.longestToken), answer, model);
  const ids = tokenizer.encode(text);
  checkFits(ids.length, answer, model);
  return ids;
}

function prepareCompletion(body: unknown, model: PromptModel): PreparedCompletion {
  const { prompt, ...request } = readCompletion(body);
  checkModel(request.model, model);
  const given = typeof prompt === 'string' || typeof prompt[0] === 'number' ? [prompt] : prompt;
  const maxTokens = request.max_tokens ?? DEFAULT_TOKENS;
  if (given.length * request.n > MOST_CHOICES)
    throw new ApiError(400, `n: a request may ask for ${MOST_CHOICES} answers`, { param: 'n' });
  const prompts = (given as Array<string | number[]>).map((one) => {
    if (typeof one === 'string') return encode(one, maxTokens, model);
    checkFits(one.length, maxTokens, model);
    return one;
  });
  if (prompts.some((ids) => ids.length === 0))
    throw new ApiError(400, 'prompt: at least one token is needed', { param: 'prompt' });
  return { kind: 'completion', request, prompts, maxTokens };
}

function argumentsOf(text: string, at: string): object {
  const given = readArguments(text);
  if (typeof given === 'string')
    throw new ApiError(400, `${at}: the arguments of a call are a JSON object`, { param: at });
  return given;
}

/** Messages as chat templates read them. */
function templated(messages: ChatRequest['messages']): Message[] {
  const names = new Map<string, string>();
  return messages.map((message, i): Message => {
    if (message.role === 'tool')
      return { role: 'tool', name: names.get(message.tool_call_id ?? '') ?? '', content: message.content };
    if (message.role !== 'assistant')
      return { role: message.role === 'developer' ? 'system' : message.role, content: message.content };
    const toolCalls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: text } }, k) => {
      if (id) names.set(id, name);
      return toolCallOf(name, argumentsOf(text, `messages.${i}.tool_calls.${k}.function.arguments`));
    });
    return { role: 'assistant', content: message.content, ...(toolCalls.length > 0 ? { toolCalls } : {}) };
  });
}

function rendered(messages: readonly Message[], tools: ChatRequest['tools'], { tokenizer }: PromptModel): string {
  try {
    return tokenizer.renderChat(messages, tools, { addGenerationPrompt: true });
  } catch (error) {
    // The template is the same for every request: what it fails on is what this one holds.
    throw new ApiError(400, `messages: the chat template cannot show them: ${(error as Error).message}`, {
      param: 'messages',
    });
  }
}

function prepareChat(body: unknown, model: PromptModel): PreparedChat {
  const all = memberOf(body, 'messages');
  // Each takes a token at least; to check and to render so many takes longer than to read them.
  if (Array.isArray(all)) checkFits(all.length, 1, model);
  const { messages, tools: given, ...request } = readChatCompletion(body);
  checkModel(request.model, model);
  const tools = request.tool_choice === 'none' ? [] : given;
  const maxTokens = request.max_completion_tokens ?? request.max_tokens ?? undefined;
  const prompt = encode(rendered(templated(messages), tools, model), maxTokens ?? 1, model);
  return { kind: 'chat', request, prompt, hasTools: tools.length > 0, maxTokens };
}

/** `body`: JSON in UTF-8. Errors: `ApiError`. */
export function prepareRequest(kind: RequestKind, body: Uint8Array, model: PromptModel): Prepared {
  let given: unknown;
  try {
    given = readWritten(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8'));
  } catch (error) {
    throw new ApiError(400, `the body is not JSON: ${(error as Error).message}`);
  }
  return kind === 'chat' ? prepareChat(given, model) : prepareCompletion(given, model);
}
