/**
 * Answers of Anthropic's `/v1/messages`. Takes: a `ChatAnswer`, or its `ChatDelta`s. Gives: the message, or its events
 * in their order, and refusals in Anthropic's shape. The events' blocks are the message's.
 */

import { plainOf, readWritten } from '../../protocol/written-json.ts';
import type { ApiError } from '../http/api-error.ts';
import type { AnswerMeta, ApiEvent, ChatAnswer, ChatCall, ChatDelta } from './chat.ts';

/** Maximum length of an error's message, in characters: it may quote the caller's text. */
const MOST_TOLD = 2000;

const ERROR_TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

/** Source: docs.anthropic.com/en/api/errors. */
export function messagesError({ status, message }: ApiError, requestId?: string): object {
  const type = ERROR_TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  return {
    type: 'error',
    error: { type, message: message.slice(0, MOST_TOLD) },
    ...(requestId === undefined ? {} : { request_id: requestId }),
  };
}

const usageOf = (input: number | undefined, output: number) => ({
  ...(input === undefined ? {} : { input_tokens: input }),
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  server_tool_use: null,
  output_tokens: output,
});

const toolUse = ({ id, name }: ChatCall, input: unknown) => ({
  type: 'tool_use',
  id: `toolu_${id}`,
  name,
  input,
  caller: { type: 'direct' },
});

/** Clients send thinking back with its signature, which this server does not need. */
const SIGNATURE = 'longhaul';

function stopOf({ finish, stopText, calls }: ChatAnswer) {
  const stop_sequence = stopText ?? null;
  if (calls.length > 0) return { stop_reason: 'tool_use', stop_sequence: null };
  if (finish === 'context') return { stop_reason: 'model_context_window_exceeded', stop_sequence };
  if (finish === 'length') return { stop_reason: 'max_tokens', stop_sequence };
  return { stop_reason: stopText === undefined ? 'end_turn' : 'stop_sequence', stop_sequence };
}

const headOf = ({ id, model }: AnswerMeta) => ({
  id: `msg_${id}`,
  type: 'message',
  role: 'assistant',
  model,
  container: null,
  diagnostics: null,
  stop_details: null,
});

/** The whole message. */
export function messageOf(answer: ChatAnswer, meta: AnswerMeta): object {
  const { reasoning, content, calls, promptTokens, answerTokens } = answer;
  const blocks = [
    ...(reasoning === '' ? [] : [{ type: 'thinking', thinking: reasoning, signature: SIGNATURE }]),
    ...(content === '' ? [] : [{ type: 'text', text: content, citations: null }]),
    ...calls.map((call) => toolUse(call, plainOf(readWritten(call.arguments)))),
  ];
  return { ...headOf(meta), content: blocks, ...stopOf(answer), usage: usageOf(promptTokens, answerTokens) };
}

const event = (type: string, members: object = {}): ApiEvent => ({ event: type, data: { type, ...members } });

/** The events of one streamed message. Call `start`, then `delta` for each delta, then `end` or `fail`. */
export class MessageEvents {
  readonly #meta: AnswerMeta;
  #index = -1;
  #open: 'reasoning' | 'text' | undefined;

  constructor(meta: AnswerMeta) {
    this.#meta = meta;
  }

  start(promptTokens: number): ApiEvent[] {
    const message = {
      ...headOf(this.#meta),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: usageOf(promptTokens, 0),
    };
    return [event('message_start', { message }), event('ping')];
  }

  delta(delta: ChatDelta): ApiEvent[] {
    if (delta.kind === 'call')
      return [
        ...this.#close(),
        this.#begin(toolUse(delta.call, {})),
        this.#change({ type: 'input_json_delta', partial_json: delta.call.arguments }),
        this.#stop(),
      ];
    const isText = delta.kind === 'text';
    const block = isText ? { type: 'text', text: '' } : { type: 'thinking', thinking: '', signature: '' };
    const begun = this.#open === delta.kind ? [] : [...this.#close(), this.#begin(block)];
    this.#open = delta.kind;
    const changed = isText
      ? { type: 'text_delta', text: delta.text }
      : { type: 'thinking_delta', thinking: delta.text };
    return [...begun, this.#change(changed)];
  }

  end(answer: ChatAnswer): ApiEvent[] {
    return [
      ...this.#close(),
      event('message_delta', { delta: stopOf(answer), usage: usageOf(answer.promptTokens, answer.answerTokens) }),
      event('message_stop'),
    ];
  }

  /** The end of a stream that fails after it began. */
  fail(error: ApiError): ApiEvent[] {
    return [{ event: 'error', data: messagesError(error) }];
  }

  #begin(content_block: object): ApiEvent {
    this.#index += 1;
    return event('content_block_start', { index: this.#index, content_block });
  }

  #change(delta: object): ApiEvent {
    return event('content_block_delta', { index: this.#index, delta });
  }

  #stop(): ApiEvent {
    return event('content_block_stop', { index: this.#index });
  }

  #close(): ApiEvent[] {
    const kind = this.#open;
    this.#open = undefined;
    if (kind === undefined) return [];
    const signed = kind === 'reasoning' ? [this.#change({ type: 'signature_delta', signature: SIGNATURE })] : [];
    return [...signed, this.#stop()];
  }
}
