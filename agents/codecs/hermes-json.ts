/** `<tool_call>` around JSON with `name` and `arguments`: Hermes' form, and Qwen's. */

import { argumentsText, isObject, type ToolCall, toolCallOf } from '../../protocol/message.ts';
import { entriesOf, readWritten, type Written } from '../../protocol/written-json.ts';
import { type Codec, endOfJson, finder, type Section } from './codec.ts';

const [OPEN, CLOSE] = ['<tool_call>', '</tool_call>'] as const;

/** A call from its JSON, or the mistake in it. `field`: the name of its arguments. */
export function readJsonCall(body: string, fields: readonly string[] = ['arguments']): ToolCall | string {
  let value: Written;
  try {
    value = readWritten(body);
  } catch (error) {
    return `The call is not JSON: ${(error as Error).message}`;
  }
  const call = isObject(value) ? new Map(entriesOf(value)) : undefined;
  const name = call?.get('name');
  if (typeof name !== 'string') return 'The call has no "name".';
  const field = fields.find((one) => call?.has(one));
  const given = field === undefined ? {} : call?.get(field);
  return isObject(given) ? toolCallOf(name, given) : `"${field}" is not an object.`;
}

/** Where the call's body ends: an end tag inside of a JSON text is part of the text. */
function endOfBody(text: string, start: number, close: (from: number) => number): number {
  const value = text.slice(start, start + 64).search(/\S/u);
  const end = value >= 0 && text[start + value] === '{' ? endOfJson(text, start + value) : undefined;
  if (end === undefined) return close(start);
  const closing = close(end);
  return closing < text.length && text.slice(end, closing).trim() === '' ? closing : close(start);
}

export const hermesJson: Codec = {
  name: 'hermes-json',
  marks: [OPEN],
  form: `${OPEN}\n{"name": NAME, "arguments": {"P": value}}\n${CLOSE}`,
  opening: (name) => `${OPEN}\n{"name":${name === undefined ? '' : ` ${JSON.stringify(name)}, "arguments":`}`,
  several: true,
  reader(text) {
    const close = (from: number) => {
      const at = text.indexOf(CLOSE, from);
      return at < 0 ? text.length : at;
    };
    return {
      next: finder(text, OPEN),
      read(start): Section {
        const begin = start + OPEN.length;
        const end = endOfBody(text, begin, close);
        if (end === text.length) return { kind: 'unclosed', error: `The call has no closing ${CLOSE}.` };
        const call = readJsonCall(text.slice(begin, end));
        return typeof call === 'string'
          ? { kind: 'mistake', error: call }
          : { kind: 'call', end: end + CLOSE.length, call };
      },
    };
  },
  callText: (call) => `${OPEN}\n{"name": ${JSON.stringify(call.name)}, "arguments": ${argumentsText(call)}}\n${CLOSE}`,
  answerText: (_tool, content) => `<tool_response>\n${content}\n</tool_response>`,
};
