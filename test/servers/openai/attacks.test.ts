/**
 * Hunts requests to Responses and Messages that are answered although a part of them cannot be honoured, and ones that
 * the server mistakes for its own failure. A refusal names the field, in the shape of its API.
 */

import { expect, it } from 'vitest';
import { readMessages } from '../../../servers/apis/messages-request.ts';
import { readChatCompletion } from '../../../servers/apis/openai-chat.ts';
import { messagesOf } from '../../../servers/apis/responses-items.ts';
import { readResponse } from '../../../servers/apis/responses-request.ts';
import { messagesError } from '../../../servers/apis/messages-answer.ts';
import { ResponseMemory } from '../../../servers/openai/response-memory.ts';
import { ApiError } from '../../../servers/http/api-error.ts';
import { readWritten } from '../../../protocol/written-json.ts';

type Body = Record<string, unknown>;
const image = 'iVBORw0KGgo='.repeat(2000);
const user = (content: unknown) => [{ role: 'user', content }];
const schema = { type: 'object' };
const response = (body: Body) => readResponse(readWritten(JSON.stringify({ model: 'm', input: 'x', ...body })));
const message = (body: Body) =>
  readMessages(readWritten(JSON.stringify({ model: 'm', max_tokens: 4, messages: user('x'), ...body })));

it.each<[string, Body, string]>([
  [
    'an image',
    { input: user([{ type: 'input_image', image_url: `data:image/png;base64,${image}` }]) },
    'input.0.content.0.type',
  ],
  ['an unknown role', { input: [{ role: 'root', content: 'x' }] }, 'input.0.role'],
  ['an unknown item', { input: [{ type: 'item_reference', id: 'a' }] }, 'input.0.type'],
  [
    'an output without its call',
    { input: [{ type: 'function_call_output', call_id: 'a', output: 'x' }] },
    'input.0.call_id',
  ],
  [
    'arguments that are no object',
    { input: [{ type: 'function_call', call_id: 'a', name: 't', arguments: '[1]' }] },
    'input.0.arguments',
  ],
  ['an empty input', { input: [] }, 'input'],
  ['a wrong type', { temperature: 'hot' }, 'temperature'],
  ['a format', { text: { format: { type: 'json_schema', name: 'a', schema } } }, 'text.format.type'],
  ['a background response', { background: true }, 'background'],
  ['a conversation', { conversation: 'c' }, 'conversation'],
  ['a truncation', { truncation: 'auto' }, 'truncation'],
  ['an effort that is none', { reasoning: { effort: 5 } }, 'reasoning.effort'],
  ['an effort of no word', { reasoning: { effort: '5 percent' } }, 'reasoning.effort'],
  ['a verbosity that is none', { text: { verbosity: 5 } }, 'text.verbosity'],
  [
    'too many pairs of metadata',
    { metadata: Object.fromEntries(Array.from({ length: 17 }, (__, i) => [`k${i}`, ''])) },
    'metadata',
  ],
  ['a long value of metadata', { metadata: { a: 'x'.repeat(513) } }, 'metadata.a'],
  ['a long key of metadata', { metadata: { ['k'.repeat(65)]: '' } }, `metadata.${'k'.repeat(65)}`],
  ['an included part', { include: ['output.video'] }, 'include.0'],
  ['a tool of the server', { tools: [{ type: 'code_interpreter', container: 'a' }] }, 'tools.0.type'],
  ['a grammar', { tools: [{ type: 'custom', name: 'p', format: { type: 'grammar' } }] }, 'tools.0.format.type'],
  [
    'two tools of a name',
    {
      tools: [
        { type: 'function', name: 't' },
        { type: 'function', name: 't' },
      ],
    },
    'tools.1.name',
  ],
  [
    'a choice of no tool',
    { tools: [{ type: 'function', name: 't' }], tool_choice: { type: 'function', name: 'u' } },
    'tool_choice',
  ],
])('Responses: %s is refused by its name', (_, body, param) => {
  expect(() => response(body)).toThrow(expect.objectContaining({ name: 'ApiError', status: 400, param }) as Error);
});

it.each<[string, Body, string]>([
  [
    'an image',
    { messages: user([{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: image } }]) },
    'messages.0.content.0.type',
  ],
  ['an unknown role', { messages: [{ role: 'tool', content: 'x' }] }, 'messages.0.role'],
  [
    'a result without its call',
    { messages: user([{ type: 'tool_result', tool_use_id: 'a', content: 'x' }]) },
    'messages.0.content.0.tool_use_id',
  ],
  [
    'a call of the user',
    { messages: user([{ type: 'tool_use', id: 'a', name: 't', input: {} }]) },
    'messages.0.content.0.type',
  ],
  [
    'an image in a result',
    {
      messages: [
        { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 't', input: {} }] },
        ...user([{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'image' }] }]),
      ],
    },
    'messages.1.content.0.content.0.type',
  ],
  [
    'a call at the end',
    { messages: [...user('x'), { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 't', input: {} }] }] },
    'messages',
  ],
  [
    'an input that is no object',
    { messages: [{ role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 't', input: 'x' }] }] },
    'messages.0.content.0.input',
  ],
  ['a budget below 1', { thinking: { type: 'enabled', budget_tokens: -5 } }, 'thinking.budget_tokens'],
  ['an effort that is none', { output_config: { effort: 5 } }, 'output_config.effort'],
  ['no limit', { max_tokens: undefined }, 'max_tokens'],
  ['a format', { output_config: { format: { type: 'json_schema', schema } } }, 'output_config.format'],
  ['a tool of Anthropic', { tools: [{ type: 'bash_20250124', name: 'bash' }] }, 'tools.0.type'],
  ['an MCP server', { mcp_servers: [{ type: 'url', url: 'http://a' }] }, 'mcp_servers'],
  ['a long text that ends the answer', { stop_sequences: ['x'.repeat(1001)] }, 'stop_sequences.0'],
  ['an unknown field', { top_logprobs: 2 }, 'top_logprobs'],
  ['a choice without tools', { tool_choice: { type: 'any' } }, 'tool_choice'],
])('Messages: %s is refused by its name', (_, body, param) => {
  expect(() => message(body)).toThrow(
    expect.objectContaining({
      name: 'ApiError',
      status: 400,
      param: expect.stringMatching(new RegExp(`^${param.replaceAll('.', String.raw`\.`)}`, 'u')) as string,
    }) as Error,
  );
});

it('chat completions: a long text that ends the answer is refused', () => {
  const chat = (stop: unknown) =>
    readChatCompletion(readWritten(JSON.stringify({ model: 'm', messages: user('x'), stop })));
  expect(chat('x'.repeat(1000)).query.stops).toHaveLength(1);
  for (const stop of ['x'.repeat(1001), ['a', 'x'.repeat(1001)]])
    expect(() => chat(stop)).toThrow(expect.objectContaining({ name: 'ApiError', status: 400 }) as Error);
});

it('what clients send beside the question is accepted', () => {
  const codex = {
    input: [
      { type: 'message', id: 'msg_1', role: 'developer', content: [{ type: 'input_text', text: 'a' }] },
      { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'b' }] },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'c' }] },
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: Buffer.from('longhaul:why').toString('base64') },
      {
        type: 'function_call',
        id: 'fc_1',
        call_id: 'call_1',
        name: 'spawn',
        namespace: 'agents',
        arguments: '{"n": 12.0}',
      },
      { type: 'function_call_output', call_id: 'call_1', output: [{ type: 'input_text', text: 'd' }] },
    ],
    tools: [
      { type: 'function', name: 'exec_command', description: 'runs', strict: false, parameters: schema },
      {
        type: 'namespace',
        name: 'agents',
        description: 'of agents',
        tools: [{ type: 'function', name: 'spawn', parameters: schema }],
      },
      { type: 'web_search', external_web_access: true },
    ],
    tool_choice: 'auto',
    parallel_tool_calls: true,
    reasoning: { effort: 'xhigh', summary: 'auto', context: 'all' },
    text: { verbosity: 'low' },
    metadata: Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`k${i}`.padEnd(64, 'k'), 'é'.repeat(512)])),
    store: false,
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: 'k',
    client_metadata: { a: 'b' },
    service_tier: 'auto',
  };
  const { query, isStored } = readResponse(readWritten(JSON.stringify({ model: 'm', stream: true, ...codex })));
  expect(isStored).toBe(false);
  expect(query.tools.map((tool) => tool.function.name)).toEqual(['exec_command', 'agents__spawn']);
  expect(query.messages).toMatchObject([
    { role: 'system', content: 'a\n\nb' },
    { role: 'user', content: 'c' },
    {
      role: 'assistant',
      content: '<think>\nwhy\n</think>\n\n',
      toolCalls: [{ name: 'agents__spawn', written: '{"n":12.0}' }],
    },
    { role: 'tool', name: 'agents__spawn', content: 'd' },
  ]);
  const claude = message({
    system: [{ type: 'text', text: 's', cache_control: { type: 'ephemeral' } }],
    thinking: { type: 'enabled', budget_tokens: 2048 },
    metadata: { user_id: 'u' },
    output_config: { effort: 'low' },
    context_management: { edits: [] },
  });
  expect(claude.messages).toEqual([
    { role: 'system', content: 's' },
    { role: 'user', content: 'x' },
  ]);
});

it('a schema that is nested too deep is refused', () => {
  const deep = `${'{"a":'.repeat(300)}1${'}'.repeat(300)}`;
  const body = `{"model": "m", "input": "x", "tools": [{"type": "function", "name": "t", "parameters": ${deep}}]}`;
  expect(() => readWritten(body)).toThrow(SyntaxError);
});

it('a hundred thousand items are read in time that grows with their number', () => {
  const items = Array.from({ length: 100_000 }, () => ({ type: 'message' as const, role: 'user' as const, text: '' }));
  expect(messagesOf(undefined, [], items)).toHaveLength(100_000);
});

it('the memory of responses is bounded by number and by bytes; the one used last stays', () => {
  const memory = new ResponseMemory({ maxResponses: 2, maxBytes: 1000 });
  const kept = { response: { id: 'r' }, items: [] };
  memory.add('a', kept);
  memory.add('b', kept);
  expect(memory.get('a')).toEqual(kept);
  memory.add('c', kept);
  expect([memory.get('a'), memory.get('b')]).toEqual([kept, undefined]);
  memory.add('d', { response: { text: 'x'.repeat(2000) }, items: [] });
  expect(['a', 'c', 'd'].map((id) => memory.get(id))).toEqual([undefined, undefined, undefined]);
  expect(() => memory.retrieve('a')).toThrow(expect.objectContaining({ status: 404 }) as Error);
});

it("refusals of Messages are in Anthropic's shape, and repeat little", () => {
  const body = messagesError(new ApiError(429, 'y'.repeat(9000)), 'id') as { error: { message: string } };
  expect(body).toMatchObject({ type: 'error', error: { type: 'rate_limit_error' }, request_id: 'id' });
  expect(body.error.message.length).toBe(2000);
});
