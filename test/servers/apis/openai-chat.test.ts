/**
 * Hunts requests whose tools are shown to the policy in another form than the client wrote, and chats that are answered
 * although OpenAI's API refuses them.
 */

import { expect, it } from 'vitest';
import { readWritten } from '../../../protocol/written-json.ts';
import { readChatCompletion as readRequest } from '../../../servers/apis/openai-chat.ts';
import { ChatTemplate, templateTool } from '../../../trainer/tokenizer/chat-template.ts';

const readChatCompletion = (body: unknown) => readRequest(body).query;

it('numbers in the schema of a tool keep their notation, and those of the request are ordinary numbers', () => {
  const schema =
    '{"type": "object", "properties": {"n": {"type": "number", "default": 12.0, "maximum": 12345678901234567890}}}';
  const body = `{"model": "m", "temperature": 1.0, "max_tokens": 1e2, "messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "t", "parameters": ${schema}}}]}`;
  const { sampling, maxTokens, tools } = readChatCompletion(readWritten(body));
  expect([sampling.temperature, maxTokens]).toEqual([1, 100]);
  const shown = new ChatTemplate('{{ tools[0].function.parameters | tojson }}', {}).render({
    messages: [],
    tools: tools.map(templateTool),
    variables: {},
  });
  expect(shown).toBe(schema);
});

it('tools without a schema, and requests without tools, are read as before', () => {
  const read = (tools: string) =>
    readChatCompletion(readWritten(`{"model": "m", "messages": [{"role": "user", "content": "x"}]${tools}}`)).tools;
  expect([read(''), read(', "tools": null')]).toEqual([[], []]);
  expect(read(', "tools": [{"type": "function", "function": {"name": "t"}}]')).toEqual([
    { type: 'function', function: { name: 't', description: '', parameters: {} } },
  ]);
});

it('tools with keys that are numbers are read like any other', () => {
  const read = (tool: string) =>
    readChatCompletion(
      readWritten(`{"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [${tool}]}`),
    ).tools;
  const shown = (tool: string) =>
    new ChatTemplate('{{ tools[0].function.parameters | tojson }}', {}).render({
      messages: [],
      tools: read(tool).map(templateTool),
      variables: {},
    });
  const schema = '{"type": "object", "properties": {"1": {"default": 2.0}}}';
  expect(shown(`{"1": 1, "type": "function", "function": {"name": "t", "parameters": ${schema}}}`)).toBe(schema);
  expect(shown(`{"type": "function", "function": {"1": 1, "name": "t", "parameters": ${schema}}}`)).toBe(schema);
  expect(shown('{"type": "function", "function": {"name": "t", "parameters": {"b": 1, "1": 2.0}}}')).toBe(
    '{"b": 1, "1": 2.0}',
  );
  expect(() => read('{"1": 1, "type": "function"}')).toThrow(
    expect.objectContaining({ name: 'ApiError', status: 400 }),
  );
});

const chat = (body: object) =>
  readRequest(readWritten(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }], ...body })));
const toolNamed = (name: string) => ({ type: 'function', function: { name } });
const calling = { role: 'assistant', tool_calls: [{ id: 'a', function: { name: 't', arguments: '{}' } }] };

it.each<[string, object, string]>([
  ['a message without content', { messages: [{ role: 'user' }] }, 'messages.0.content'],
  ['a message whose content is null', { messages: [{ role: 'system', content: null }] }, 'messages.0.content'],
  ['a message of no parts', { messages: [{ role: 'user', content: [] }] }, 'messages.0.content'],
  ['an assistant that says nothing', { messages: [{ role: 'assistant', content: null }] }, 'messages.0.content'],
  ['an answer without content', { messages: [calling, { role: 'tool', tool_call_id: 'a' }] }, 'messages.1.content'],
  [
    'an answer to no call',
    { messages: [calling, { role: 'tool', tool_call_id: 'b', content: 'x' }] },
    'messages.1.tool_call_id',
  ],
  [
    'an answer before its call',
    { messages: [{ role: 'tool', tool_call_id: 'a', content: 'x' }, calling] },
    'messages.0.tool_call_id',
  ],
  ['an answer to an unnamed call', { messages: [calling, { role: 'tool', content: 'x' }] }, 'messages.1.tool_call_id'],
  ['two tools of a name', { tools: [toolNamed('t'), toolNamed('u'), toolNamed('t')] }, 'tools.2.function.name'],
  ...['', '\0', 'a"b', 'é', 'a b', 't\n', 'x'.repeat(65)].map((name): [string, object, string] => [
    `a tool named ${JSON.stringify(name)}`,
    { tools: [toolNamed(name)] },
    'tools.0.function.name',
  ]),
  ['options of a stream that there is not', { stream_options: { include_usage: true } }, 'stream_options'],
  ['a number as effort', { reasoning_effort: 5 }, 'reasoning_effort'],
  ['a number as verbosity', { verbosity: 5 }, 'verbosity'],
  ['a long key of metadata', { metadata: { ['k'.repeat(9000)]: '' } }, `metadata.${'k'.repeat(128)}`],
  ['a long value of metadata', { metadata: { a: '', b: 'x'.repeat(513) } }, 'metadata.b'],
  ['metadata that is no text', { metadata: { a: { b: 1 } } }, 'metadata.a'],
  [
    'many pairs of metadata',
    { metadata: Object.fromEntries(Array.from({ length: 17 }, (__, i) => [i, ''])) },
    'metadata',
  ],
  ['many stop tokens', { stop_token_ids: Array.from({ length: 100_000 }, (_, i) => i) }, 'stop_token_ids'],
])('%s is refused by its name', (_, body, param) => {
  expect(() => chat(body)).toThrow(expect.objectContaining({ name: 'ApiError', status: 400, param }) as Error);
});

it('what agents send is accepted: calls without text, answers in any order, empty texts, long names of tools', () => {
  const { query } = chat({
    tools: [toolNamed('x'.repeat(64)), toolNamed('mcp__A-1')],
    messages: [
      { role: 'user', content: '' },
      { ...calling, content: null, tool_calls: [...calling.tool_calls, { ...calling.tool_calls[0], id: 'b' }] },
      { role: 'tool', tool_call_id: 'b', content: [{ type: 'text', text: 'two' }] },
      { role: 'tool', tool_call_id: 'a', content: '' },
      { role: 'assistant', content: '' },
    ],
    reasoning_effort: 'xhigh',
    metadata: Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`${i}`.padEnd(64, 'k'), 'é'.repeat(512)])),
    stream_options: null,
  });
  expect(query.messages.map(({ role, content }) => [role, content])).toEqual([
    ['user', ''],
    ['assistant', ''],
    ['tool', 'two'],
    ['tool', ''],
    ['assistant', ''],
  ]);
});
