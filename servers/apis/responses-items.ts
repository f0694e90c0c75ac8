/**
 * Items of OpenAI's Responses API, as they are kept for `previous_response_id`, and the messages that they are: an
 * assistant's reasoning, text and calls that follow each other are one message.
 */

import { z } from 'zod';
import { type Message, type ToolCall, toolCallOf } from '../../protocol/message.ts';
import { withOneSystem, withReasoning } from './chat.ts';
import { harmless, refuse, textOrParts, unionByType } from './fields.ts';
import { argumentsOf } from './openai-chat.ts';

/** An item whose texts are joined. */
export type ResponseItem =
  | { readonly type: 'message'; readonly role: 'system' | 'user' | 'assistant'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  | {
      readonly type: 'call';
      readonly callId: string;
      /** As the policy knows it: with its namespace. */
      readonly name: string;
      /** A JSON object. */
      readonly arguments: string;
    }
  | { readonly type: 'output'; readonly callId: string; readonly text: string };

/** A name of a tool in a namespace, as the policy knows it. */
export const inNamespace = (namespace: string | null | undefined, name: string): string =>
  namespace === undefined || namespace === null || namespace === '' ? name : `${namespace}__${name}`;

/** What keeps a text's reasoning while it is at the client: opaque to it, but not secret. */
export const sealReasoning = (text: string): string => Buffer.from(`longhaul:${text}`).toString('base64');

function unseal(sealed: string): string {
  const text = Buffer.from(sealed, 'base64').toString('utf8');
  return text.startsWith('longhaul:') ? text.slice('longhaul:'.length) : '';
}

const marks = { id: harmless, status: harmless, phase: harmless, internal_chat_message_metadata_passthrough: harmless };
const textPart = (type: string) => z.object({ type: z.literal(type), text: z.string() });
const refusalPart = z
  .object({ type: z.literal('refusal'), refusal: z.string() })
  .transform(({ refusal }) => ({ type: 'refusal', text: refusal }));
const joined = (parts: ReadonlyArray<{ readonly text: string }>) => parts.map(({ text }) => text).join('\n\n');
const content = textOrParts(
  unionByType([textPart('input_text'), textPart('output_text'), textPart('text'), refusalPart], 'part'),
  'input_text',
).transform(joined);
const texts = (type: string) =>
  z
    .array(unionByType([textPart(type), textPart('text')], 'part'))
    .nullish()
    .transform((parts) => (parts ?? []).map(({ text }) => text).join('\n\n'));

const message = z
  .object({ type: z.literal('message'), role: z.enum(['system', 'developer', 'user', 'assistant']), content, ...marks })
  .transform(({ role, content: text }): ResponseItem => ({
    type: 'message',
    role: role === 'developer' ? 'system' : role,
    text,
  }));
const reasoning = z
  .object({
    type: z.literal('reasoning'),
    summary: texts('summary_text'),
    content: texts('reasoning_text'),
    encrypted_content: z.string().nullish(),
    ...marks,
  })
  .transform(({ content: text, encrypted_content: sealed, summary }): ResponseItem => ({
    type: 'reasoning',
    text: text || unseal(sealed ?? '') || summary,
  }));
const calls = { call_id: z.string(), name: z.string(), namespace: z.string().nullish(), ...marks };
const functionCall = z
  .object({ type: z.literal('function_call'), arguments: z.string(), ...calls })
  .transform((one): ResponseItem => ({
    type: 'call',
    callId: one.call_id,
    name: inNamespace(one.namespace, one.name),
    arguments: one.arguments,
  }));
const customCall = z
  .object({ type: z.literal('custom_tool_call'), input: z.string(), ...calls })
  .transform((one): ResponseItem => ({
    type: 'call',
    callId: one.call_id,
    name: inNamespace(one.namespace, one.name),
    arguments: JSON.stringify({ input: one.input }),
  }));
const outputOf = (type: string) =>
  z
    .object({ type: z.literal(type), call_id: z.string(), output: content, ...marks })
    .transform(({ call_id: callId, output }): ResponseItem => ({ type: 'output', callId, text: output }));

/** A message may leave out its type. */
const withType = (item: unknown) =>
  typeof item === 'object' && item !== null && !Array.isArray(item) && !('type' in item) && 'role' in item
    ? { ...item, type: 'message' }
    : item;

/** The schema of `input`. */
export const inputSchema = z.preprocess(
  (value) => (typeof value === 'string' ? [{ type: 'message', role: 'user', content: value }] : value),
  z
    .array(
      z.preprocess(
        withType,
        unionByType(
          [
            message,
            reasoning,
            functionCall,
            customCall,
            outputOf('function_call_output'),
            outputOf('custom_tool_call_output'),
          ],
          'item',
        ),
      ),
    )
    .min(1),
);

/** An assistant's message that is being put together. */
interface Open {
  reasoning: string;
  text: string | undefined;
  readonly calls: ToolCall[];
}

class Messages {
  readonly all: Message[] = [];
  readonly #names = new Map<string, string>();
  #open: Open | undefined;

  add(item: ResponseItem, at: string): void {
    switch (item.type) {
      case 'message':
        if (item.role === 'assistant')
          this.#assistant((open) => open.text === undefined && open.calls.length === 0).text = item.text;
        else this.#push({ role: item.role, content: item.text });
        return;
      case 'reasoning':
        this.#assistant(
          (open) => open.reasoning === '' && open.text === undefined && open.calls.length === 0,
        ).reasoning = item.text;
        return;
      case 'call':
        this.#names.set(item.callId, item.name);
        this.#assistant(() => true).calls.push(toolCallOf(item.name, argumentsOf(item.arguments, `${at}.arguments`)));
        return;
      case 'output': {
        const name = this.#names.get(item.callId);
        if (name === undefined)
          refuse(`${at}.call_id`, `no call before it has the id ${JSON.stringify(item.callId.slice(0, 80))}`);
        this.#push({ role: 'tool', name, content: item.text });
      }
    }
  }

  close(): void {
    const { reasoning: thought = '', text = '', calls: toolCalls = [] } = this.#open ?? {};
    const hasAny = this.#open !== undefined;
    this.#open = undefined;
    if (!hasAny) return;
    const said = withReasoning(thought, text);
    this.all.push({ role: 'assistant', content: said, ...(toolCalls.length > 0 ? { toolCalls } : {}) });
  }

  /** The open message if `takes` it; else a new one. */
  #assistant(takes: (open: Open) => boolean): Open {
    if (this.#open !== undefined && !takes(this.#open)) this.close();
    this.#open ??= { reasoning: '', text: undefined, calls: [] };
    return this.#open;
  }

  #push(message: Message): void {
    this.close();
    this.all.push(message);
  }
}

/** Errors: `ApiError` 400 for an output without its call, and for arguments that are no JSON object. */
export function messagesOf(
  instructions: string | undefined,
  earlier: readonly ResponseItem[],
  items: readonly ResponseItem[],
): Message[] {
  const messages = new Messages();
  if (instructions !== undefined) messages.add({ type: 'message', role: 'system', text: instructions }, 'instructions');
  earlier.forEach((item) => messages.add(item, 'previous_response_id'));
  items.forEach((item, i) => messages.add(item, `input.${i}`));
  messages.close();
  return withOneSystem(messages.all);
}
