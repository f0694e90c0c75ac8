/**
 * Turns a request's body into token ids: JSON, fields, chat template, encoding. All work that grows with the size of a
 * request is done here, so that it can run in a thread. The result fits the context.
 */

import { type Message, readArguments, toolCallOf } from '../../protocol/message.ts';
import { memberOf, readWritten } from '../../protocol/written-json.ts';
import type { ChatTokenizer } from '../../agents/render-conversation.ts';
import { ApiError } from '../http/api-error.ts';
import { contextExceeded } from './api-error.ts';
import { type ChatRequest, type CompletionRequest, readChatCompletion, readCompletion } from './read-request.ts';

export type RequestKind = 'completion' | 'chat';

/** The parts of a model that are needed to make a prompt. */
export interface PromptModel {
  readonly name: string;
  /** Maximum number of tokens of prompt and answer together. */
  readonly contextTokens: number;
  readonly tokenizer: Pick<ChatTokenizer, 'encode' | 'renderChat'> & {
    /** Maximum number of bytes of one token. */
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
  /** True if the policy may call tools. */
  readonly hasTools: boolean;
  /** `undefined`: as many as fit the context. */
  readonly maxTokens: number | undefined;
}
export type Prepared = PreparedCompletion | PreparedChat;

/** Errors: `ApiError` 404 for another model. */
export function checkModel(asked: string, { name }: Pick<PromptModel, 'name'>): void {
  if (asked === name) return;
  throw new ApiError(404, `The model ${JSON.stringify(asked.slice(0, 200))} does not exist.`, {
    param: 'model',
    code: 'model_not_found',
  });
}

/** Maximum number of answers of one request. */
const MOST_CHOICES = 64;
/** OpenAI's default of `max_tokens`. */
const DEFAULT_TOKENS = 16;

/** Errors: `ApiError` if prompt and answer do not fit the context. */
function checkFits(tokens: number, answer: number, { contextTokens }: PromptModel): void {
  if (tokens + answer > contextTokens) throw contextExceeded(contextTokens, tokens, answer);
}

/**
 * Errors: `ApiError`, before encoding, if the text has more bytes than the context's tokens can represent. A tokenizer
 * that drops text (runs of spaces) could fit more; vLLM uses the same limit.
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
    throw new ApiError(400, `n: a request may ask for at most ${MOST_CHOICES} answers`, { param: 'n' });
  const prompts = (given as Array<string | number[]>).map((one) => {
    if (typeof one === 'string') return encode(one, maxTokens, model);
    checkFits(one.length, maxTokens, model);
    return one;
  });
  if (prompts.some((ids) => ids.length === 0))
    throw new ApiError(400, 'prompt: give at least one token', { param: 'prompt' });
  return { kind: 'completion', request, prompts, maxTokens };
}

function argumentsOf(text: string, at: string): object {
  const given = readArguments(text);
  if (typeof given === 'string')
    throw new ApiError(400, `${at}: the arguments of a call must be a JSON object`, { param: at });
  return given;
}

/** Messages in the form that chat templates read. */
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
    // The template is the same for every request, so this request's content is at fault.
    throw new ApiError(400, `messages: the chat template cannot render them: ${(error as Error).message}`, {
      param: 'messages',
    });
  }
}

function prepareChat(body: unknown, model: PromptModel): PreparedChat {
  const all = memberOf(body, 'messages');
  // Each message takes at least one token. This check is faster than validating and rendering too many messages.
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
