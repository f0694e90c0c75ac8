/**
 * Answers of OpenAI's `/v1/responses`. Takes: a `ChatAnswer`, or its `ChatDelta`s. Gives: the response, its items for a
 * later `previous_response_id`, or the typed events in their order. The events' items are the response's: same ids,
 * same order, same texts.
 */

import { memberOf, readWritten } from '../../protocol/written-json.ts';
import type { AnswerMeta, ApiEvent, ChatAnswer, ChatCall, ChatDelta, TokenShown } from './chat.ts';
import { type ResponseItem, sealReasoning } from './responses-items.ts';
import type { ResponseFields } from './responses-request.ts';

type Item = Readonly<Record<string, unknown>> & { readonly id: string };

const shown = ({ top, ...token }: TokenShown) => ({ ...token, top_logprobs: top });
const logprobsOf = (answer: ChatAnswer | undefined) => (answer?.logprobs ?? []).map(shown);
const partOf = (text: string, answer?: ChatAnswer) => ({
  type: 'output_text',
  text,
  annotations: [],
  logprobs: logprobsOf(answer),
});

const reasoningItem = (meta: AnswerMeta, text: string | undefined, { sealsReasoning }: ResponseFields): Item => ({
  id: `rs_${meta.id}`,
  type: 'reasoning',
  summary: [],
  content: text === undefined ? [] : [{ type: 'reasoning_text', text }],
  ...(sealsReasoning ? { encrypted_content: text === undefined ? null : sealReasoning(text) } : {}),
});

const messageItem = (meta: AnswerMeta, status: string, content: readonly object[]): Item => ({
  id: `msg_${meta.id}`,
  type: 'message',
  role: 'assistant',
  status,
  content,
});

/** The text of a custom tool's call. */
function inputOf(text: string): string {
  const input = memberOf(readWritten(text), 'input');
  return typeof input === 'string' ? input : text;
}

/** `text`: the arguments, or the input, so far. */
function callItem({ id, name }: ChatCall, status: string, text: string, { toolNames }: ResponseFields): Item {
  const known = Object.hasOwn(toolNames, name) ? toolNames[name] : undefined;
  const called = {
    call_id: `call_${id}`,
    name: known?.name ?? name,
    ...(known?.namespace === undefined ? {} : { namespace: known.namespace }),
  };
  return known?.kind === 'custom'
    ? { id: `ctc_${id}`, type: 'custom_tool_call', status, ...called, input: text }
    : { id: `fc_${id}`, type: 'function_call', status, ...called, arguments: text };
}

const isCustom = ({ name }: ChatCall, { toolNames }: ResponseFields): boolean =>
  Object.hasOwn(toolNames, name) && toolNames[name]?.kind === 'custom';

const writtenBy = (call: ChatCall, fields: ResponseFields): string =>
  isCustom(call, fields) ? inputOf(call.arguments) : call.arguments;

/** An answer without text and calls has an empty message. */
const hasMessage = ({ content, calls }: ChatAnswer): boolean => content !== '' || calls.length === 0;

const statusOf = ({ finish }: ChatAnswer) => (finish === 'stop' ? 'completed' : 'incomplete');

function outputOf(answer: ChatAnswer, meta: AnswerMeta, fields: ResponseFields): Item[] {
  const { reasoning, content, calls } = answer;
  return [
    ...(reasoning === '' ? [] : [reasoningItem(meta, reasoning, fields)]),
    ...(hasMessage(answer) ? [messageItem(meta, statusOf(answer), [partOf(content, answer)])] : []),
    ...calls.map((call) => callItem(call, 'completed', writtenBy(call, fields), fields)),
  ];
}

const usageOf = ({ promptTokens, answerTokens, reasoningTokens }: ChatAnswer) => ({
  input_tokens: promptTokens,
  input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
  output_tokens: answerTokens,
  output_tokens_details: { reasoning_tokens: reasoningTokens },
  total_tokens: promptTokens + answerTokens,
});

export const responseId = ({ id }: AnswerMeta): string => `resp_${id}`;

function headOf(meta: AnswerMeta, { repeated }: ResponseFields, status: string): Record<string, unknown> {
  return {
    id: responseId(meta),
    object: 'response',
    created_at: meta.created,
    status,
    error: null,
    incomplete_details: null,
    model: meta.model,
    output: [],
    usage: null,
    ...repeated,
  };
}

/** The whole response. */
export function responseOf(answer: ChatAnswer, meta: AnswerMeta, fields: ResponseFields): object {
  const status = statusOf(answer);
  return {
    ...headOf(meta, fields, status),
    incomplete_details: status === 'completed' ? null : { reason: 'max_output_tokens' },
    output: outputOf(answer, meta, fields),
    usage: usageOf(answer),
  };
}

/** The answer's items, as a later request that continues it has them. */
export function answerItems({ reasoning, content, calls }: ChatAnswer): ResponseItem[] {
  return [
    ...(reasoning === '' ? [] : [{ type: 'reasoning' as const, text: reasoning }]),
    ...(content === '' ? [] : [{ type: 'message' as const, role: 'assistant' as const, text: content }]),
    ...calls.map(({ id, name, arguments: text }) => ({
      type: 'call' as const,
      callId: `call_${id}`,
      name,
      arguments: text,
    })),
  ];
}

/** The events of one streamed response. Call `start`, then `delta` for each delta, then `end` or `fail`. */
export class ResponseEvents {
  readonly #meta: AnswerMeta;
  readonly #fields: ResponseFields;
  #number = 0;
  #index = -1;
  #open: 'reasoning' | 'text' | undefined;
  #hasMessage = false;
  #text = '';

  constructor(meta: AnswerMeta, fields: ResponseFields) {
    this.#meta = meta;
    this.#fields = fields;
  }

  start(): ApiEvent[] {
    const response = headOf(this.#meta, this.#fields, 'in_progress');
    return [this.#event('response.created', { response }), this.#event('response.in_progress', { response })];
  }

  delta(delta: ChatDelta): ApiEvent[] {
    if (delta.kind === 'call') return [...this.#close(), ...this.#call(delta.call)];
    const begun = this.#open === delta.kind ? [] : [...this.#close(), ...this.#begin(delta.kind)];
    this.#text += delta.text;
    const type = delta.kind === 'text' ? 'response.output_text.delta' : 'response.reasoning_text.delta';
    const logprobs = delta.kind === 'text' ? { logprobs: [] } : {};
    return [...begun, this.#event(type, { ...this.#place(delta.kind), delta: delta.text, ...logprobs })];
  }

  end(answer: ChatAnswer): ApiEvent[] {
    const empty = hasMessage(answer) && !this.#hasMessage ? [...this.#close(), ...this.#begin('text')] : [];
    const closed = this.#close(answer);
    const response = responseOf(answer, this.#meta, this.#fields);
    const type = statusOf(answer) === 'completed' ? 'response.completed' : 'response.incomplete';
    return [...empty, ...closed, this.#event(type, { response })];
  }

  /** The end of a stream that fails after it began. */
  fail(message: string): ApiEvent[] {
    const error = { code: 'server_error', message };
    const response = { ...headOf(this.#meta, this.#fields, 'failed'), error };
    return [this.#event('response.failed', { response })];
  }

  #event(type: string, members: object): ApiEvent {
    const data = { type, sequence_number: this.#number, ...members };
    this.#number += 1;
    return { event: type, data };
  }

  #place(kind: 'reasoning' | 'text') {
    const prefix = kind === 'text' ? 'msg' : 'rs';
    return { item_id: `${prefix}_${this.#meta.id}`, output_index: this.#index, content_index: 0 };
  }

  #begin(kind: 'reasoning' | 'text'): ApiEvent[] {
    this.#open = kind;
    this.#index += 1;
    this.#text = '';
    this.#hasMessage ||= kind === 'text';
    const item =
      kind === 'text' ? messageItem(this.#meta, 'in_progress', []) : reasoningItem(this.#meta, undefined, this.#fields);
    const part = kind === 'text' ? partOf('') : { type: 'reasoning_text', text: '' };
    return [
      this.#event('response.output_item.added', { output_index: this.#index, item }),
      this.#event('response.content_part.added', { ...this.#place(kind), part }),
    ];
  }

  #close(answer?: ChatAnswer): ApiEvent[] {
    const [kind, text] = [this.#open, this.#text];
    this.#open = undefined;
    if (kind === undefined) return [];
    if (kind === 'reasoning') {
      const part = { type: 'reasoning_text', text };
      return this.#closing(kind, 'response.reasoning_text.done', part, {
        item: reasoningItem(this.#meta, text, this.#fields),
      });
    }
    const part = partOf(text, answer);
    const item = messageItem(this.#meta, answer === undefined ? 'completed' : statusOf(answer), [part]);
    return this.#closing(kind, 'response.output_text.done', part, { item, logprobs: part.logprobs });
  }

  #closing(
    kind: 'reasoning' | 'text',
    type: string,
    part: { readonly text: string },
    { item, ...rest }: { readonly item: Item; readonly logprobs?: readonly object[] },
  ): ApiEvent[] {
    return [
      this.#event(type, { ...this.#place(kind), text: part.text, ...rest }),
      this.#event('response.content_part.done', { ...this.#place(kind), part }),
      this.#event('response.output_item.done', { output_index: this.#index, item }),
    ];
  }

  #call(call: ChatCall): ApiEvent[] {
    this.#index += 1;
    const output_index = this.#index;
    const text = writtenBy(call, this.#fields);
    const done = callItem(call, 'completed', text, this.#fields);
    const place = { item_id: done.id, output_index };
    const custom = isCustom(call, this.#fields);
    const type = custom ? 'response.custom_tool_call_input' : 'response.function_call_arguments';
    const whole = custom ? { input: text } : { name: done['name'], arguments: text };
    return [
      this.#event('response.output_item.added', {
        output_index,
        item: callItem(call, 'in_progress', '', this.#fields),
      }),
      this.#event(`${type}.delta`, { ...place, delta: text }),
      this.#event(`${type}.done`, { ...place, ...whole }),
      this.#event('response.output_item.done', { output_index, item: done }),
    ];
  }
}
