/** Hunts requests whose tools are shown to the policy in another form than the client wrote. */

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
