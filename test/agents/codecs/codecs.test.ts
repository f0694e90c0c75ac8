import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { endOfJson, NotWritable, parseTurn, withoutReasoning } from '../../../agents/codecs/codec.ts';
import { codecNamed, codecOfTemplate } from '../../../agents/codecs/codecs.ts';
import { TEXT_CODECS, type TextCodecName } from '../../../protocol/conversation.ts';
import type { ToolSchema } from '../../../protocol/message.ts';
import { toolCallOf } from '../../../protocol/message.ts';
import { MAX_DEPTH, readWritten } from '../../../protocol/written-json.ts';

const parseToolCalls = (text: string, codec: TextCodecName, tools: readonly ToolSchema[] = []) =>
  parseTurn(text, codecNamed(codec), { tools });

describe('function-xml', () => {
  const parse = (text: string) => parseToolCalls(text, 'function-xml');

  it('reads several calls and keeps the text before them', () => {
    const text =
      'I look.\n<function=bash>\n<parameter=command>ls</parameter>\n</function>\n<function=finish>\n</function>';
    expect(parse(text)).toEqual({
      kind: 'calls',
      content: 'I look.',
      calls: [
        { name: 'bash', arguments: { command: 'ls' } },
        { name: 'finish', arguments: {} },
      ],
    });
  });

  it('keeps indentation and removes only the line ends around a value', () => {
    const parsed = parse(
      '<function=e>\n<parameter=old_str>\n    a = 1\n</parameter>\n<parameter=b>  x </parameter>\n</function>',
    );
    expect(parsed).toMatchObject({ calls: [{ arguments: { old_str: '    a = 1', b: '  x ' } }] });
  });

  it('distinguishes a message from an unfinished call', () => {
    expect(parse('done')).toEqual({ kind: 'no-call', content: 'done' });
    expect(parse('<function=bash>\n<parameter=command>ls')).toMatchObject({ kind: 'malformed' });
  });
});

describe('texts with which a policy might slow down its worker', () => {
  const parts = [
    '<function=',
    '<function=a>',
    '</function>',
    '<parameter=',
    '<parameter=b>',
    '</parameter>',
    '>',
    '\n',
    'x',
    ' ',
  ];

  it('are parsed by the patterns of the format', () => {
    const section = (tag: string) => new RegExp(`<${tag}=([^>\\n]+)>([\\s\\S]*?)</${tag}>`, 'gu');
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...parts), { maxLength: 30 }), (words) => {
        const text = words.join('');
        const parsed = parseToolCalls(text, 'function-xml');
        const names = [...text.matchAll(section('function'))].map(([, name = '', body = '']) => [
          name.trim(),
          [...body.matchAll(section('parameter'))].map(([, key = '']) => key.trim()),
        ]);
        expect(
          parsed.kind === 'calls' ? parsed.calls.map((call) => [call.name, Object.keys(call.arguments)]) : [],
        ).toEqual(names.map(([name, keys]) => [name, [...new Set(keys)]]));
      }),
    );
  });

  // In quadratic time, each would take hours.
  it.each([
    '<function=a>',
    '<function=',
    '<function=\n>',
    '<function=a></function><parameter=',
    '<tool_call>',
    '<parameter=b>',
  ])('are read once: %j, two hundred thousand times', (part) => {
    const text = part.repeat(200_000);
    for (const end of ['', '\n', '>', '</function>', '<function=a>']) {
      expect(['calls', 'no-call', 'malformed']).toContain(parseToolCalls(text + end, 'function-xml').kind);
      expect(['calls', 'no-call', 'malformed']).toContain(
        parseToolCalls(`${text}${end}</tool_call>`, 'hermes-json').kind,
      );
    }
  });
});

describe('hermes-json', () => {
  const parse = (text: string) => parseToolCalls(text, 'hermes-json');

  it('reads calls', () => {
    expect(parse('<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>')).toEqual({
      kind: 'calls',
      content: '',
      calls: [{ name: 'bash', arguments: { command: 'ls' } }],
    });
  });

  it.each([
    ['<tool_call>{"name": </tool_call>', /not JSON/],
    ['<tool_call>[1]</tool_call>', /no "name"/],
    ['<tool_call>{"name": "a", "arguments": 3}</tool_call>', /not an object/],
    ['<tool_call>{"name": "a"}', /no closing/],
  ])('reports the error in %s', (text, error) => {
    const parsed = parse(text);
    expect(parsed.kind).toBe('malformed');
    expect(parsed.kind === 'malformed' && parsed.error).toMatch(error);
  });
});

// An error here would count as the worker's, and would mask the rollout.
describe('arguments that are nested too deep to be processed', () => {
  const nested = (open: string, close: string, depth: number) => `${open.repeat(depth)}1${close.repeat(depth)}`;
  const parse = (value: string) =>
    parseToolCalls(`<tool_call>{"name": "a", "arguments": {"b": ${value}}}</tool_call>`, 'hermes-json');

  it.each([
    ['[', ']'],
    ['{"a":', '}'],
    ['[{"1":', '}]'],
  ])('are rejected like invalid JSON: %j', (open, close) => {
    const levels = open.length === 1 || open === '{"a":' ? 1 : 2;
    const most = Math.floor((MAX_DEPTH - 2) / levels);
    expect(parse(nested(open, close, most)).kind).toBe('calls');
    for (const depth of [most + 1, 1_000, 2_500, 4_000, 20_000])
      expect(parse(nested(open, close, depth))).toMatchObject({
        kind: 'malformed',
        error: expect.stringMatching(/nested more than \d+ deep$/) as unknown,
      });
  });
});

describe('any text', () => {
  it('never throws', () => {
    const pieces = fc.constantFrom(
      '<function=',
      'a>',
      '</function>',
      '<parameter=',
      '</parameter>',
      '<tool_call>',
      '{',
      '"',
      '}',
      '</tool_call>',
      '{"name":',
      '<|python_tag|>',
      '<think>',
      '</think>',
      '\n',
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(pieces, fc.string())), (parts) => {
        for (const codec of TEXT_CODECS) parseToolCalls(parts.join(''), codec);
      }),
    );
  });

  it('is parsed in the format of the chat template', () => {
    expect(codecOfTemplate('… <function=NAME> …').name).toBe('function-xml');
    expect(codecOfTemplate('… <tool_call> …').name).toBe('hermes-json');
    expect(codecOfTemplate(`{{ '"parameters": ' }}{{ call.arguments | tojson }}`).name).toBe('llama3-json');
    expect(codecOfTemplate('{{ message.content }}').name).toBe('hermes-json');
  });
});

/** `skyrl-text` takes the types of values from the tools, and reads one call a message. */
const TOOL: ToolSchema = {
  type: 'function',
  function: {
    name: 'work',
    description: '',
    parameters: { type: 'object', properties: { text: { type: 'string' }, list: { type: 'array' } }, required: [] },
  },
};

const callOf = (written: string) => toolCallOf('work', readWritten(written) as object);

describe('calls that are written and read again', () => {
  const lines = fc.string({
    unit: fc.constantFrom('a', ' ', '\n', '"', '\\', '<', '>', '{', '}', '<think>', '</think>', 'é'),
  });
  const numbers = fc.constantFrom('12.0', '1e3', '-0.5', '12345678901234567890', '7', 'true', 'null', '[1.0, "x"]');

  it.each(['hermes-json', 'llama3-json'] as const)('are the same, with numbers as they were written: %s', (name) => {
    const codec = codecNamed(name);
    const pieces = fc.string({
      unit: fc.constantFrom('a', '</tool_call>', '<think>', '</think>', '"', '}', '\n', '; '),
    });
    fc.assert(
      fc.property(fc.array(fc.tuple(pieces, numbers), { minLength: 1, maxLength: 3 }), (values) => {
        const calls = values.map(([text, number]) => callOf(`{"text": ${JSON.stringify(text)}, "n": ${number}}`));
        const text = `I act.\n${calls.map((call) => codec.callText(call)).join('\n')}`;
        expect(parseTurn(text, codec)).toEqual({ kind: 'calls', content: 'I act.', calls });
      }),
    );
  });

  it('are the same texts in function-xml, several a message', () => {
    const codec = codecNamed('function-xml');
    fc.assert(
      fc.property(fc.array(fc.tuple(lines, numbers), { minLength: 1, maxLength: 3 }), (values) => {
        const calls = values.map(([text, number]) => callOf(`{"text": ${JSON.stringify(text)}, "n": ${number}}`));
        const read = parseTurn(calls.map((call) => codec.callText(call)).join('\n'), codec);
        expect(read.kind === 'calls' && read.calls.map((call) => call.arguments)).toEqual(
          values.map(([text, number]) => ({ text, n: number.replace(', ', ',') })),
        );
      }),
    );
  });

  it('are the same in skyrl-text', () => {
    const codec = codecNamed('skyrl-text');
    fc.assert(
      fc.property(lines, fc.array(fc.constantFrom(1, 'a', null)), (text, list) => {
        const call = callOf(JSON.stringify({ text, list }));
        expect(parseTurn(codec.callText(call), codec, { tools: [TOOL] })).toMatchObject({ calls: [call] });
      }),
    );
  });

  it('are refused if the form would read them as something else', () => {
    expect(() => codecNamed('function-xml').callText(callOf('{"text": "a</parameter>b"}'))).toThrow(NotWritable);
    expect(() => codecNamed('skyrl-text').callText(toolCallOf('a>b', {}))).toThrow(NotWritable);
  });
});

describe('reasoning', () => {
  const calls: ReadonlyArray<readonly [TextCodecName, string, string]> = [
    ['hermes-json', '<tool_call>{"name": "bad"}</tool_call>', '<tool_call>{"name": "good"}</tool_call>'],
    ['function-xml', '<function=bad>\n</function>', '<function=good>\n</function>'],
    ['llama3-json', '\n{"name": "bad", "parameters": {}}', '\n{"name": "good", "parameters": {}}'],
    ['skyrl-text', '<function=bad>\n</function>', '<function=good>\n</function>'],
  ];
  const namesIn = (text: string, codec: TextCodecName, inReasoning = false) => {
    const parsed = parseTurn(text, codecNamed(codec), { inReasoning });
    return parsed.kind === 'calls' ? parsed.calls.map(({ name }) => name) : parsed.kind;
  };

  it.each(calls)('never runs a call: %s', (codec, bad, good) => {
    expect(namesIn(`<think>I could ${bad}</think>${good}`, codec)).toEqual(['good']);
    expect(namesIn(`<think>I could ${bad}</think> done`, codec)).toBe('no-call');
    expect(namesIn(`<think>I could ${bad}`, codec)).toBe('malformed');
    expect(namesIn(`<think>a<think>b</think>${bad}</think>${good}`, codec)).toEqual(['good']);
    // The template has opened it.
    expect(namesIn(`I could ${bad}</think>${good}`, codec)).toEqual(['good']);
    expect(namesIn(`I could ${bad}`, codec, true)).toBe('malformed');
    expect(namesIn(`I could ${bad} or <function=\n<tool_call>{</think> done`, codec)).not.toEqual(['bad']);
  });

  it('is not begun by the text of an argument', () => {
    const text = '<tool_call>{"name": "write", "arguments": {"text": "<think>x</tool_call>"}}</tool_call>';
    expect(parseToolCalls(text, 'hermes-json')).toMatchObject({
      calls: [{ arguments: { text: '<think>x</tool_call>' } }],
    });
    const xml = '<function=write>\n<parameter=text></think><think></parameter>\n</function>';
    expect(parseToolCalls(xml, 'function-xml')).toMatchObject({ calls: [{ arguments: { text: '</think><think>' } }] });
  });

  it('is removed, and nothing else', () => {
    const remove = (text: string) => withoutReasoning(text, codecNamed('hermes-json'));
    expect(remove('<think>\na\n</think>\n\nI look.')).toBe('I look.');
    expect(remove('a</think>b')).toBe('b');
    expect(remove('I look.')).toBe('I look.');
    const call = '<tool_call>{"name": "w", "arguments": {"t": "<think>x</think>"}}</tool_call>';
    expect(remove(call)).toBe(call);
  });
});

describe('hostile texts', () => {
  const parts = [
    '<think>',
    '</think>',
    '<function=a>\n',
    '<function=',
    '<parameter=',
    '{"name":',
    '\n{',
    '\n',
    '"',
    '\\',
    '[',
    '<tool_call>{',
    '</tool_call>',
    '<|python_tag|>',
    '<function=work>\n<parameter=list>[NaN,',
  ];

  // In quadratic time, each would take hours.
  it.each(parts)('of a megabyte are read once: %j', (part) => {
    for (const codec of TEXT_CODECS) {
      const text = part.repeat(Math.ceil(1e6 / part.length));
      for (const end of ['', '</function>', '</parameter></function>', '</think>', '}</tool_call>'])
        expect(['calls', 'no-call', 'malformed']).toContain(parseToolCalls(text + end, codec, [TOOL]).kind);
    }
  });

  it('end JSON where it ends', () => {
    expect(endOfJson('{"a": "}\\"]", "b": [1]} rest', 0)).toBe(23);
    expect(endOfJson('{"a": "', 0)).toBeUndefined();
  });
});
