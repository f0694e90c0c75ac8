/**
 * Hunts arguments of tool calls that the parser, a record or the chat template changes: `12.0` to `12`, the last digits
 * of a long integer, the order of keys. Expected: what Python prints.
 */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { argumentsText, type Message } from '../../../protocol/message.ts';
import { parseTurn } from '../../../agents/codecs/codec.ts';
import { codecNamed } from '../../../agents/codecs/codecs.ts';
import { plainOf, readWritten, writtenText } from '../../../protocol/written-json.ts';
import { ChatTemplate, templateMessage } from '../../../trainer/tokenizer/chat-template.ts';
import { readJson, vectors } from '../tiny-policy.ts';

interface Case {
  readonly template: string;
  readonly arguments: string;
  readonly rendered: string;
}

const { cases } = readJson<{ readonly cases: readonly Case[] }>(vectors, 'tool-arguments.json');

function callOf(text: string) {
  const parsed = parseTurn(`<tool_call>\n{"name": "t", "arguments": ${text}}\n</tool_call>`, codecNamed('hermes-json'));
  if (parsed.kind !== 'calls' || !parsed.calls[0]) throw new Error(`not read as a call: ${text}`);
  return parsed.calls[0];
}

describe('arguments of a call', () => {
  it.each(cases.map((one, i) => [`[${i}] ${one.template} of ${one.arguments.replaceAll(/\s+/gu, ' ')}`, one] as const))(
    '%s',
    (_, one) => {
      // As in a record, and in a workflow's history.
      const message = JSON.parse(
        JSON.stringify({ role: 'assistant', content: '', toolCalls: [callOf(one.arguments)] }),
      ) as Message;
      const template = new ChatTemplate(
        `{%- set a = messages[0].tool_calls[0].function.arguments -%}${one.template}`,
        {},
      );
      expect(template.render({ messages: [templateMessage(message)], tools: null, variables: {} })).toBe(one.rendered);
    },
  );

  it('are ordinary values for tools, and keep their text only if values would lose something', () => {
    expect(callOf('{"n": 12.0, "m": [1e5, 9223372036854775809]}')).toEqual({
      name: 't',
      arguments: { n: 12, m: [100_000, 2 ** 63] },
      written: '{"n":12.0,"m":[1e5,9223372036854775809]}',
    });
    expect(callOf('{"b": 1, "1": 2}').written).toBe('{"b":1,"1":2}');
    for (const text of ['{}', '{"n": 12, "m": -0.50, "é": "\\u00e9"}'])
      expect(callOf(text)).not.toHaveProperty('written');
    expect(argumentsText(callOf('{"n": 1.10}'))).toBe('{"n":1.1}');
  });

  it('cannot change the prototype of the object that they are read into', () => {
    const { arguments: given } = callOf('{"__proto__": {"polluted": 1.0}, "1": 2}');
    expect(Object.getPrototypeOf(given)).toBe(Object.prototype);
    expect(Object.keys(given)).toEqual(['1', '__proto__']);
  });
});

describe('any JSON', () => {
  it('is read as by JSON.parse, and written again unchanged', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 5 }), (text) => {
        const written = readWritten(text);
        expect(plainOf(written)).toEqual(JSON.parse(text));
        expect(writtenText(readWritten(writtenText(written)))).toBe(writtenText(written));
      }),
    );
  });

  it.each(['', '{', '01', '1.', '.5', 'NaN', '[1,]', "{'a':1}", '"\n"', '{"a" 1}', '1 2'])(
    'other text is refused: %s',
    (text) => {
      expect(() => readWritten(text)).toThrow(SyntaxError);
    },
  );
});
