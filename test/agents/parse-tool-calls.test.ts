import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseToolCalls, toolCallFormatOf } from '../../agents/parse-tool-calls.ts';
import { MAX_DEPTH } from '../../protocol/written-json.ts';

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
      '\n',
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(pieces, fc.string())), (parts) => {
        for (const format of ['function-xml', 'hermes-json'] as const) parseToolCalls(parts.join(''), format);
      }),
    );
  });

  it('is parsed in the format of the chat template', () => {
    expect(toolCallFormatOf('… <function=NAME> …')).toBe('function-xml');
    expect(toolCallFormatOf('… <tool_call> …')).toBe('hermes-json');
  });
});
