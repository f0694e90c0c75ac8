/**
 * OpenAI's messages with tool calls, as the texts that SkyRL's agents train on, and back. Values are printed as Python
 * prints them: lists in single quotes, which `skyrl-text` does not read again. That is how SkyRL wrote its data.
 */

import { argumentsText, isObject, type ToolCall, type ToolSchema } from '../../protocol/message.ts';
import { pythonFloat, pythonString, stripped } from '../../protocol/python-text.ts';
import { entriesOf, WrittenFloat } from '../../protocol/written-json.ts';
import { readPythonJson, readSkyrlText } from './skyrl-text.ts';

/** A message that has no text in this form, or no message. */
export class ConversionRefused extends Error {
  override readonly name = 'ConversionRefused';
}

/** An OpenAI message, as written. */
export type OpenAiMessage = Readonly<Record<string, unknown>>;

const RESULT = /EXECUTION RESULT of \[([^]*?)\]:\n([^]*)/u;

/** Python's `str` of a value of `readWritten`, as an f-string prints it; inside of lists and dictionaries `repr`. */
function pythonText(value: unknown, isInner = false): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string') return isInner ? pythonString(value) : value;
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : pythonFloat(value);
  if (value instanceof WrittenFloat) return pythonFloat(value.value);
  if (Array.isArray(value)) return `[${value.map((one) => pythonText(one, true)).join(', ')}]`;
  const entries = entriesOf(value as object).map(([key, child]) => `${pythonString(key)}: ${pythonText(child, true)}`);
  return `{${entries.join(', ')}}`;
}

const memberOf = (value: unknown, name: string): unknown =>
  isObject(value) ? (value as Readonly<Record<string, unknown>>)[name] : undefined;

function argumentsOf(name: string, text: string): object {
  let given: unknown;
  try {
    given = readPythonJson(text);
  } catch (error) {
    throw new ConversionRefused(`the arguments of ${name} are no JSON: ${(error as Error).message}`);
  }
  if (isObject(given)) return given;
  throw new ConversionRefused(`the arguments of ${name} are no JSON object`);
}

/** Errors: `ConversionRefused` for a call without an id, of another type than `function`, or with other arguments. */
export function skyrlCallText(call: unknown): string {
  const [id, type, called] = ['id', 'type', 'function'].map((name) => memberOf(call, name));
  const [name, text] = [memberOf(called, 'name'), memberOf(called, 'arguments')];
  if (id === undefined || type !== 'function' || typeof name !== 'string' || typeof text !== 'string')
    throw new ConversionRefused(`${JSON.stringify(call)}: give id, type: function, and function: { name, arguments }`);
  const values = entriesOf(argumentsOf(name, text)).map(([key, value]) => {
    const isLong = typeof value === 'string' && value.includes('\n');
    const shown = isLong ? `\n${value}\n` : pythonText(value);
    return `<parameter=${key}>${shown}</parameter>\n`;
  });
  return `<function=${name}>\n${values.join('')}</function>`;
}

interface TextPart {
  readonly type: 'text';
  readonly text: string;
}

const isText = (part: unknown): part is TextPart =>
  memberOf(part, 'type') === 'text' && typeof memberOf(part, 'text') === 'string';

/** The content with its last text changed, or with a text of its own where the last part is none. */
function changed(content: unknown, change: (text: string) => string, place: 'first' | 'last'): unknown {
  if (typeof content === 'string') return change(content);
  if (!Array.isArray(content)) throw new ConversionRefused('a message needs a text or parts as its content');
  const parts = content as readonly unknown[];
  const last = parts.at(-1);
  if (isText(last)) return [...parts.slice(0, -1), { ...last, text: change(last.text) }];
  const own = { type: 'text', text: stripped(change(''), 'left') };
  return place === 'last' ? [...parts, own] : [{ type: 'text', text: change('') }, ...parts];
}

function assistantText({ role, content, tool_calls: calls }: OpenAiMessage): OpenAiMessage {
  if (calls === undefined || calls === null) return { role, content };
  if (!Array.isArray(calls) || calls.length !== 1)
    throw new ConversionRefused('an assistant message may have one call in this form');
  const call = skyrlCallText(calls[0]);
  return { role, content: changed(content, (text) => stripped(`${text}\n\n${call}`, 'left'), 'last') };
}

function toolText({ content, name = 'function' }: OpenAiMessage): OpenAiMessage {
  const head = `EXECUTION RESULT of [${typeof name === 'string' ? name : pythonText(name)}]:\n`;
  return { role: 'user', content: changed(content, (text) => `${head}${text}`, 'first') };
}

/** Errors: `ConversionRefused` for a role that the form has not, several calls, and a call or answer without text. */
export function messagesToSkyrl(messages: readonly OpenAiMessage[]): OpenAiMessage[] {
  return messages.map((message) => {
    const { role, content } = message;
    switch (role) {
      case 'system':
        if (typeof content !== 'string' && !Array.isArray(content))
          throw new ConversionRefused('a system message needs a text or parts as its content');
        return { role, content };
      case 'user':
        return { role, content };
      case 'assistant':
        return assistantText(message);
      case 'tool':
        return toolText(message);
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

const textsOf = (content: unknown): readonly string[] => {
  if (typeof content === 'string') return [content];
  return Array.isArray(content) ? content.filter(isText).map(({ text }) => text) : [];
};

/** The answer to the last call. `undefined`: the message is none. */
function answerOf(content: unknown, calls: number): OpenAiMessage | undefined {
  const found = textsOf(content)
    .map((text) => RESULT.exec(text))
    .find((one) => one !== null);
  if (!found) return undefined;
  const isList = Array.isArray(content);
  if (isList && content.length !== 1)
    throw new ConversionRefused('the answer of a tool must be the only part of its message');
  const [, name, result = ''] = found;
  const text = stripped(result);
  return { role: 'tool', name, content: isList ? [{ type: 'text', text }] : text, tool_call_id: callId(calls) };
}

/** The call of a message of the assistant, with its content before the call. `undefined`: it has none. */
function calledIn(content: unknown, tools: readonly ToolSchema[]) {
  const isList = Array.isArray(content);
  const read = textsOf(content).map((text) => readSkyrlText(text, tools));
  const last = isList && !isText(content.at(-1)) ? undefined : read.at(-1);
  if (last?.kind === 'misfit') throw new ConversionRefused(last.error);
  if (last?.kind === 'call')
    return { ...last, content: isList ? changed(content, () => last.content, 'last') : last.content };
  if (read.some(({ kind }) => kind !== 'no-call'))
    throw new ConversionRefused('a call must be in the last part of its message');
  return undefined;
}

/**
 * Errors: `ConversionRefused` for another role than system, user and assistant, for a call that breaks its schema, and
 * for a call or an answer that is not in the part where it belongs.
 */
export function skyrlToMessages(messages: readonly OpenAiMessage[], tools: readonly ToolSchema[]): OpenAiMessage[] {
  let calls = 0;
  return messages.map((message) => {
    const { role } = message;
    const content = message['content'] ?? '';
    if (role === 'system') return { role, content };
    if (role === 'user') return answerOf(content, calls) ?? { role, content };
    if (role !== 'assistant')
      throw new ConversionRefused(`role ${JSON.stringify(role)}: give system, user or assistant`);
    const called = calledIn(content, tools);
    if (called === undefined) return message;
    calls += 1;
    return { role, content: called.content, tool_calls: [{ index: 1, ...openAiCall(called.call, calls) }] };
  });
}
