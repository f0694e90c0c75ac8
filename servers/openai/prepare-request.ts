/**
 * Turns a request's body into token ids: JSON, fields, chat template, encoding. All work that grows with the size of a
 * request is done here, so that it can run in a thread. The result fits the context.
 */

import { isUtf8 } from 'node:buffer';
import type { Message, ToolSchema } from '../../protocol/message.ts';
import { memberOf, readWritten } from '../../protocol/written-json.ts';
import { opensReasoning } from '../../agents/codecs/codec.ts';
import { codecOfTemplate } from '../../agents/codecs/codecs.ts';
import type { ChatTokenizer } from '../../agents/render-conversation.ts';
import type { ChatQuery, ToolChoice } from '../apis/chat.ts';
import { refuse } from '../apis/fields.ts';
import { readCountTokens, readMessages } from '../apis/messages-request.ts';
import { type ChatFields, readChatCompletion } from '../apis/openai-chat.ts';
import type { ResponseItem } from '../apis/responses-items.ts';
import { previousOf, readResponse, type ResponseFields } from '../apis/responses-request.ts';
import { ApiError } from '../http/api-error.ts';
import { contextExceeded, promptTooLong } from './api-error.ts';
import { type CompletionRequest, readCompletion } from './read-completion.ts';

export type RequestKind = 'completion' | 'chat' | 'response' | 'message' | 'count';

/** The parts of a model that are needed to make a prompt. */
export interface PromptModel {
  readonly name: string;
  /** Maximum number of tokens of prompt and answer together. */
  readonly contextTokens: number;
  readonly tokenizer: Pick<ChatTokenizer, 'encode' | 'renderChat'> & {
    readonly chatTemplate: string;
    /** Maximum number of bytes of one token. */
    readonly longestToken: number;
    /** The highest id of a token. */
    readonly lastToken: number;
    readonly stopTokenIds: readonly number[];
  };
}

export interface PreparedCompletion {
  readonly kind: 'completion';
  readonly request: Omit<CompletionRequest, 'prompt'>;
  readonly prompts: ReadonlyArray<readonly number[]>;
  readonly maxTokens: number;
}

/** A chat whose messages and tools are a prompt. */
export interface PreparedTurn {
  readonly query: Omit<ChatQuery, 'messages' | 'tools'>;
  readonly prompt: readonly number[];
  /** True if the policy may call tools. */
  readonly hasTools: boolean;
  /** True if the prompt has opened the reasoning. */
  readonly inReasoning: boolean;
  /** The beginning of a call with which the prompt ends. `''`: none. */
  readonly opening: string;
  /** `undefined`: as many as fit the context. */
  readonly maxTokens: number | undefined;
  /** True if fewer tokens than asked fit the context. */
  readonly isClipped: boolean;
}

export interface PreparedChat {
  readonly kind: 'chat';
  readonly turn: PreparedTurn;
  readonly fields: ChatFields;
}
export interface PreparedResponse {
  readonly kind: 'response';
  readonly turn: PreparedTurn;
  readonly fields: ResponseFields;
  readonly isStored: boolean;
  readonly items: readonly ResponseItem[];
}
export type Prepared =
  | PreparedCompletion
  | PreparedChat
  | PreparedResponse
  | { readonly kind: 'message'; readonly turn: PreparedTurn }
  | { readonly kind: 'count'; readonly tokens: number }
  /** To be prepared again with the items of this response. */
  | { readonly kind: 'continues'; readonly response: string };

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

/** Errors: `ApiError` if an id is no token's: it would never be sampled. */
function checkStopTokens(ids: readonly number[], { tokenizer: { lastToken, stopTokenIds } }: PromptModel): void {
  // A policy's configuration may name one that its tokenizer lacks; its clients send it.
  const i = ids.findIndex((id) => id > lastToken && !stopTokenIds.includes(id));
  if (i >= 0) refuse(`stop_token_ids.${i}`, `the vocabulary ends with token ${lastToken}`);
}

function prepareCompletion(body: unknown, model: PromptModel): PreparedCompletion {
  const { prompt, ...request } = readCompletion(body);
  checkModel(request.model, model);
  checkStopTokens(request.stop_token_ids, model);
  const given = typeof prompt === 'string' || typeof prompt[0] === 'number' ? [prompt] : prompt;
  const maxTokens = request.max_tokens ?? DEFAULT_TOKENS;
  if (given.length * request.n > MOST_CHOICES)
    throw new ApiError(400, `n: a request may ask for at most ${MOST_CHOICES} answers`, { param: 'n' });
  // The engine samples at least one token.
  const answer = Math.max(1, maxTokens);
  const prompts = (given as Array<string | number[]>).map((one) => {
    if (typeof one === 'string') return encode(one, answer, model);
    checkFits(one.length, answer, model);
    return one;
  });
  if (prompts.some((ids) => ids.length === 0))
    throw new ApiError(400, 'prompt: give at least one token', { param: 'prompt' });
  return { kind: 'completion', request, prompts, maxTokens };
}

function rendered(messages: readonly Message[], tools: readonly ToolSchema[], { tokenizer }: PromptModel): string {
  try {
    return tokenizer.renderChat(messages, tools, { addGenerationPrompt: true });
  } catch (error) {
    // The template is the same for every request, so this request's content is at fault.
    throw new ApiError(400, `messages: the chat template cannot render them: ${(error as Error).message}`, {
      param: 'messages',
    });
  }
}

/**
 * How a call that is asked for begins: the prompt ends with it, so the policy continues with the call. Errors:
 * `ApiError` if a name cannot be written in the policy's form.
 */
function openingOf(
  choice: ToolChoice,
  tools: readonly ToolSchema[],
  { tokenizer: { chatTemplate } }: PromptModel,
): string {
  if (choice === 'auto' || tools.length === 0) return '';
  const codec = codecOfTemplate(chatTemplate);
  const only = tools.length === 1 ? tools[0]?.function.name : undefined;
  const name = choice === 'required' ? only : choice.name;
  if (name !== undefined && /[<>\n]/u.test(name))
    refuse('tool_choice', 'the name cannot be written as the start of a call');
  // Qwen's templates of this form have a tag around it.
  const isWrapped = codec.name === 'function-xml' && chatTemplate.includes('<tool_call>');
  return `${isWrapped ? '<tool_call>\n' : ''}${codec.opening(name)}`;
}

function prepareTurn(query: ChatQuery, model: PromptModel): PreparedTurn {
  checkModel(query.model, model);
  const { messages, tools, ...rest } = query;
  const hasTools = tools.length > 0;
  const text = rendered(messages, tools, model);
  const inReasoning = opensReasoning(text);
  const opening = openingOf(query.toolChoice, tools, model);
  if (inReasoning && opening !== '')
    refuse('tool_choice', "this policy's prompt opens its reasoning, which comes before a call: give auto");
  if (inReasoning && query.prefill !== '')
    refuse('messages', "this policy's prompt opens its reasoning, so that no text can be continued: end with the user");
  const isBounded = query.overflow === 'fewer';
  const least = isBounded ? 1 : (query.maxTokens ?? 1);
  const prompt = encodeTurn(`${text}${query.prefill}${opening}`, least, model, isBounded);
  const room = model.contextTokens - prompt.length;
  const isClipped = isBounded && query.maxTokens !== undefined && query.maxTokens > room;
  return {
    query: rest,
    prompt,
    hasTools,
    inReasoning,
    opening,
    maxTokens: isClipped ? room : query.maxTokens,
    isClipped,
  };
}

function encodeTurn(text: string, least: number, model: PromptModel, isBounded: boolean): number[] {
  try {
    return encode(text, least, model);
  } catch (error) {
    if (isBounded && error instanceof ApiError && error.code === 'context_length_exceeded')
      throw promptTooLong(model.contextTokens);
    throw error;
  }
}

/** Each message takes at least one token. This check is faster than validating and rendering too many. */
function checkLength(body: unknown, field: string, model: PromptModel): void {
  const all = memberOf(body, field);
  if (Array.isArray(all)) checkFits(all.length, 1, model);
}

function prepareResponse(body: unknown, model: PromptModel, earlier: readonly ResponseItem[] | undefined): Prepared {
  const previous = previousOf(body);
  if (previous !== undefined && earlier === undefined) return { kind: 'continues', response: previous };
  checkLength(body, 'input', model);
  const { query, ...rest } = readResponse(body, earlier);
  return { kind: 'response', turn: prepareTurn(query, model), ...rest };
}

/**
 * `body`: JSON in UTF-8. `earlier`: the items of the response that it continues; without them, such a request is
 * returned as `continues`. Errors: `ApiError`.
 */
export function prepareRequest(
  kind: RequestKind,
  body: Uint8Array,
  model: PromptModel,
  earlier?: readonly ResponseItem[],
): Prepared {
  let given: unknown;
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (!isUtf8(bytes)) throw new ApiError(400, 'the body is not UTF-8');
  try {
    given = readWritten(bytes.toString('utf8'));
  } catch (error) {
    throw new ApiError(400, `the body is not JSON: ${(error as Error).message}`);
  }
  if (kind === 'completion') return prepareCompletion(given, model);
  if (kind === 'response') return prepareResponse(given, model, earlier);
  checkLength(given, 'messages', model);
  if (kind === 'message') return { kind, turn: prepareTurn(readMessages(given), model) };
  if (kind === 'count') return { kind, tokens: prepareTurn(readCountTokens(given), model).prompt.length };
  const { query, fields } = readChatCompletion(given);
  checkStopTokens(fields.stop_token_ids, model);
  return { kind, turn: prepareTurn(query, model), fields };
}
