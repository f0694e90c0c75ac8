/**
 * Details of SkyRL's codec beside its vectors: what its own code answered. The codec of policies here keeps white space
 * in texts, and takes no numbers for arrays.
 */

import { describe, expect, it } from 'vitest';
import {
  ConversionRefused,
  messagesToSkyrl,
  skyrlCallText,
  skyrlToMessages,
} from '../../../agents/codecs/skyrl-messages.ts';
import { looksTruncated, readPythonJson, readSkyrlText, skyrlText } from '../../../agents/codecs/skyrl-text.ts';
import type { ToolSchema } from '../../../protocol/message.ts';

const properties = {
  query: { type: 'array' },
  k: { type: 'integer' },
  command: { type: 'string', enum: ['view', 'create'] },
  text: { type: 'string' },
};
const tools = [
  { type: 'function', function: { name: 'edit', description: 'd', parameters: { type: 'object', properties } } },
] as unknown as readonly ToolSchema[];

const callOf = (name: string, value: string): string =>
  `<function=edit>\n<parameter=${name}>${value}</parameter>\n</function>`;

describe('values', () => {
  const read = (name: string, value: string): unknown => {
    const found = readSkyrlText(callOf(name, value), tools);
    return found.kind === 'call' ? found.call.arguments[name] : found;
  };

  it.each([
    ['text', '\n\n  a\n b \n', 'a\n b'],
    ['text', ' \u001c\ufeffa\u0085', '\ufeffa'],
    ['command', 'view ', 'view'],
    ['command', '\n create\n', 'create'],
    ['k', '\u0663', 3],
    ['k', '\u001c7\u00a0', 7],
    ['query', '4', 4],
    ['query', ' "s" ', 's'],
    ['query', 'null', null],
    ['query', '[1]\u00a0', [1]],
    ['query', '["\\u0000x", NaN]', ['\0x', Number.NaN]],
  ])('%s of %j is %j', (name, value, expected) => expect(read(name, value)).toEqual(expected));

  it.each([
    ['k', '\ufeff3', 'param_not_integer'],
    ['query', '[NaN1]', 'param_not_array'],
    ['query', '[-NaN]', 'param_not_array'],
  ])('%s of %j is refused', (name, value, mistake) => expect(read(name, value)).toMatchObject({ mistake }));

  it('keep their white space where a policy calls a tool, and an array is no number', () => {
    const codecRead = (text: string) => skyrlText.reader(text, tools).read(0);
    expect(codecRead(callOf('text', '\n  a\n'))).toMatchObject({ call: { arguments: { text: '  a' } } });
    expect(codecRead(callOf('command', 'view '))).toMatchObject({ call: { arguments: { command: 'view' } } });
    expect(codecRead(callOf('query', '4'))).toMatchObject({ kind: 'mistake' });
  });

  it("have Python's constants, and stay as they were written beside them", () => {
    expect(readPythonJson('{"b": [NaN, "NaN"], "a": -Infinity, "1": 2}')).toEqual(
      new Map<string, unknown>([
        ['b', [Number.NaN, 'NaN']],
        ['a', Number.NEGATIVE_INFINITY],
        ['1', 2],
      ]),
    );
  });
});

it("reads the ends of a message by Python's white space", () => {
  expect(readSkyrlText(`\u001ca\u0085${callOf('k', '1')}`, tools)).toMatchObject({ content: 'a' });
  expect(looksTruncated(`${callOf('k', '1')}\u001c`)).toBe(false);
  expect(looksTruncated(`${callOf('k', '1')}\ufeff`)).toBe(true);
});

const called = (written: string) => ({ id: 't', type: 'function', function: { name: 'f', arguments: written } });

it.each([
  ['{"a": [1e5, 1.50, 1e-7, 1e22, -0.0, 1E400]}', '[100000.0, 1.5, 1e-07, 1e+22, -0.0, inf]'],
  ['{"a": 1E5}', '100000.0'],
  ['{"a": NaN}', 'nan'],
  [String.raw`{"a": ["\u0000\u007f\u00a0\u200b", "it's"]}`, String.raw`['\x00\x7f\xa0\u200b', "it's"]`],
  ['{"a": "</parameter>"}', '</parameter>'],
])('%j is printed as Python prints it', (written, printed) => {
  expect(skyrlCallText(called(written))).toBe(`<function=f>\n<parameter=a>${printed}</parameter>\n</function>`);
});

it.each(['', '[1]', '{oops'])('arguments %j are refused', (written) => {
  expect(() => skyrlCallText(called(written))).toThrow(ConversionRefused);
});

describe('messages', () => {
  it('become texts without further fields, also in parts', () => {
    const part = { type: 'text', text: ' why' };
    const image = { type: 'image_url', image_url: { url: 'u' } };
    const call = '<function=f>\n</function>';
    expect(
      messagesToSkyrl([
        { role: 'user', content: [part], name: 'n' },
        { role: 'assistant', content: [image, part], tool_calls: [called('{}')] },
        { role: 'assistant', content: [image], tool_calls: [called('{}')] },
        { role: 'tool', content: [image, part], name: 'f' },
        { role: 'tool', content: [image] },
      ]),
    ).toEqual([
      { role: 'user', content: [part] },
      { role: 'assistant', content: [image, { type: 'text', text: `why\n\n${call}` }] },
      { role: 'assistant', content: [image, { type: 'text', text: call }] },
      { role: 'user', content: [image, { type: 'text', text: 'EXECUTION RESULT of [f]:\n why' }] },
      { role: 'user', content: [{ type: 'text', text: 'EXECUTION RESULT of [function]:\n' }, image] },
    ]);
  });

  it.each([
    { role: 'assistant', content: 'x', tool_calls: [] },
    { role: 'system', content: null },
    { role: 'tool', content: null },
  ])('%j is refused', (message) => expect(() => messagesToSkyrl([message])).toThrow(ConversionRefused));

  it('are read back from texts, the answer of a tool also after other words and before any call', () => {
    const text = 'so: EXECUTION RESULT of [a]b]:\n ok\u001c';
    const answer = { role: 'tool', name: 'a]b', content: 'ok', tool_call_id: 'toolu_00' };
    expect(skyrlToMessages([{ role: 'user', content: text }], tools)).toEqual([answer]);
    expect(skyrlToMessages([{ role: 'user', content: [{ type: 'text', text }] }], tools)).toEqual([
      { ...answer, content: [{ type: 'text', text: 'ok' }] },
    ]);
    expect(skyrlToMessages([{ role: 'user', content: null, name: 'n' }], tools)).toEqual([
      { role: 'user', content: '' },
    ]);
    const parts = [
      { type: 'text', text: callOf('k', '1') },
      { type: 'text', text: 'after' },
    ];
    expect(() => skyrlToMessages([{ role: 'assistant', content: parts }], tools)).toThrow(ConversionRefused);
    expect(skyrlToMessages([{ role: 'assistant', content: parts.slice(0, 1) }], tools)).toMatchObject([
      { content: [{ type: 'text', text: '' }], tool_calls: [{ id: 'toolu_01' }] },
    ]);
  });
});
