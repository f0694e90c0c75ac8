/**
 * OpenAI's messages with tool calls, as the texts that SkyRL's agents train on, and back. Values are printed as Python
 * prints them: lists in single quotes, which `skyrl-text` does not read again. That is how SkyRL wrote its data.
 */

import { argumentsText, isObject, readArguments, type ToolCall, type ToolSchema } from '../../protocol/message.ts';
import { entriesOf, writtenText } from '../../protocol/written-json.ts';
import { functionText } from './function-xml.ts';
import { readSkyrlText } from './skyrl-text.ts';

/** A message that has no text in this form, or no message. */
export class ConversionRefused extends Error {
  override readonly name = 'ConversionRefused';
}

/** An OpenAI message, as written. */
export type OpenAiMessage = Readonly<Record<string, unknown>>;

const RESULT = /^EXECUTION RESULT of \[([^\]]*)\]:\n/u;

function pythonString(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text
    .replaceAll('\\', '\\\\')
    .replaceAll('\n', String.raw`\n`)
    .replaceAll('\r', String.raw`\r`)
    .replaceAll('\t', String.raw`\t`)
    .replaceAll(quote, `\\${quote}`);
  return `${quote}${escaped}${quote}`;
}

/** Python's `repr` of a value of `readWritten`. */
function pythonText(value: unknown): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string') return pythonString(value);
  if (Array.isArray(value)) return `[${value.map(pythonText).join(', ')}]`;
  if (!isObject(value)) return writtenText(value);
  const entries = entriesOf(value).map(([key, child]) => `${pythonString(key)}: ${pythonText(child)}`);
  return `{${entries.join(', ')}}`;
}

const memberOf = (value: unknown, name: string): unknown =>
  isObject(value) ? (value as Readonly<Record<string, unknown>>)[name] : undefined;

/** Errors: `ConversionRefused` for a call without an id, of another type than `function`, or with other arguments. */
export function skyrlCallText(call: unknown): string {
  const [id, type, called] = ['id', 'type', 'function'].map((name) => memberOf(call, name));
  const [name, text] = [memberOf(called, 'name'), memberOf(called, 'arguments')];
  if (id === undefined || type !== 'function' || typeof name !== 'string' || typeof text !== 'string')
    throw new ConversionRefused(`${JSON.stringify(call)}: give id, type: function, and function: { name, arguments }`);
  const given = readArguments(text);
  if (typeof given === 'string') throw new ConversionRefused(`the arguments of ${name} are ${given}`);
  const values = entriesOf(given).map(
    ([key, value]) => [key, typeof value === 'string' ? value : pythonText(value)] as const,
  );
  return functionText('skyrl-text', { name, arguments: {} }, values);
}

function assistantText(message: OpenAiMessage): OpenAiMessage {
  const { tool_calls: calls, ...rest } = message;
  if (calls === undefined || calls === null || (Array.isArray(calls) && calls.length === 0)) return rest;
  if (!Array.isArray(calls) || calls.length !== 1)
    throw new ConversionRefused('an assistant message may have one call in this form');
  const { content } = message;
  if (typeof content !== 'string') throw new ConversionRefused('an assistant message with a call needs a text');
  return { ...rest, content: `${content}\n\n${skyrlCallText(calls[0])}`.trimStart() };
}

/** Errors: `ConversionRefused` for a role that the form has not, several calls, and a call without its text. */
export function messagesToSkyrl(messages: readonly OpenAiMessage[]): OpenAiMessage[] {
  return messages.map((message) => {
    const { role, content, name } = message;
    switch (role) {
      case 'system':
      case 'user':
        return message;
      case 'assistant':
        return assistantText(message);
      case 'tool':
        return {
          role: 'user',
          content: `EXECUTION RESULT of [${typeof name === 'string' ? name : 'function'}]:\n${String(content)}`,
        };
      default:
        throw new ConversionRefused(`role ${JSON.stringify(role)}: give system, user, assistant or tool`);
    }
  });
}

/** The ids that SkyRL gives to calls, from 1. */
const callId = (number: number): string => `toolu_${String(number).padStart(2, '0')}`;

/** A call in OpenAI's form, under SkyRL's id. */
export const openAiCall = (call: ToolCall, number = 1) => ({
  id: callId(number),
  type: 'function' as const,
  function: { name: call.name, arguments: argumentsText(call) },
});

/**
 * Errors: `ConversionRefused` for another role than system, user and assistant, and for a call that breaks its schema.
 */
export function skyrlToMessages(messages: readonly OpenAiMessage[], tools: readonly ToolSchema[]): OpenAiMessage[] {
  let calls = 0;
  return messages.map((message) => {
    const { role, content } = message;
    const text = typeof content === 'string' ? content : '';
    if (role === 'system') return message;
    if (role === 'user') {
      const [head, name] = RESULT.exec(text) ?? [];
      if (head === undefined || calls === 0) return message;
      return { role: 'tool', name, content: text.slice(head.length).trim(), tool_call_id: callId(calls) };
    }
    if (role !== 'assistant')
      throw new ConversionRefused(`role ${JSON.stringify(role)}: give system, user or assistant`);
    const read = readSkyrlText(text, tools);
    if (read.kind === 'misfit') throw new ConversionRefused(read.error);
    if (read.kind === 'no-call') return message;
    calls += 1;
    return { role, content: read.content, tool_calls: [{ index: 1, ...openAiCall(read.call, calls) }] };
  });
}
