/**
 * Hunts answers that OpenAI's and Anthropic's own clients misread: plain, streamed, with tools, over several turns. Over
 * real HTTP, with the starter policy. Not asserted: that its answers are good.
 */

import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { expect, it } from 'vitest';
import { tool, useStarterServer } from './starter-server.ts';

const world = useStarterServer();
const { serving, taskPrompt } = world;
const apiKey = 'sk-here';
const { name, description, parameters } = tool.function;
const tools = [{ type: 'function' as const, name, description, parameters, strict: true }];

async function openAi() {
  const { baseUrl } = await serving({ apiKey });
  return new OpenAI({ baseURL: baseUrl, apiKey, maxRetries: 0 });
}
async function anthropic() {
  const { baseUrl } = await serving({ apiKey });
  return new Anthropic({ baseURL: baseUrl.replace(/\/v1$/u, ''), apiKey, authToken: null, maxRetries: 0 });
}
/** Its types have no such field any more. */
const greedy = { temperature: 0 };
const issue = () => taskPrompt().messages[0]!.content;

it('Responses: a text, streamed with the same items, continued by its id', async () => {
  const client = await openAi();
  const asked = { model: 'starter', input: 'Hello', max_output_tokens: 12, temperature: 0 };
  const whole = await client.responses.create({ ...asked, instructions: 'Be short.' });
  expect(whole).toMatchObject({ object: 'response', model: 'starter', error: null, instructions: 'Be short.' });
  expect(whole.output_text.length).toBeGreaterThan(0);
  expect(whole.usage?.total_tokens).toBe(whole.usage!.input_tokens + whole.usage!.output_tokens);

  const types: string[] = [];
  const numbers: number[] = [];
  let text = '';
  const stream = client.responses.stream({ ...asked, instructions: 'Be short.' });
  for await (const event of stream) {
    types.push(event.type);
    numbers.push(event.sequence_number);
    if (event.type === 'response.output_text.delta') text += event.delta;
  }
  const final = await stream.finalResponse();
  expect(numbers).toEqual(numbers.map((_, i) => i));
  expect(types.filter((type, i) => type !== types[i - 1])).toEqual([
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.content_part.added',
    'response.output_text.delta',
    'response.output_text.done',
    'response.content_part.done',
    'response.output_item.done',
    whole.status === 'completed' ? 'response.completed' : 'response.incomplete',
  ]);
  expect([text, final.output_text]).toEqual([whole.output_text, whole.output_text]);

  const next = { ...asked, input: 'And?', previous_response_id: final.id };
  const continued = await client.responses.create(next);
  const inFull = await client.responses.create({
    ...asked,
    input: [
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: final.output_text },
      { role: 'user', content: 'And?' },
    ],
    store: false,
  });
  expect(continued.usage?.input_tokens).toBe(inFull.usage?.input_tokens);
  expect(continued.output_text).toBe(inFull.output_text);
  await expect(client.responses.retrieve(inFull.id)).rejects.toMatchObject({ status: 404 });
  expect((await client.responses.retrieve(final.id)).output_text).toBe(final.output_text);
  await client.responses.delete(final.id);
  await expect(client.responses.create(next)).rejects.toMatchObject({
    status: 400,
    code: 'previous_response_not_found',
    param: 'previous_response_id',
  });
});

it('Responses: a call, streamed or not, and its output', async () => {
  const client = await openAi();
  const asked = { model: 'starter', input: issue(), tools, temperature: 0, max_output_tokens: 40 };
  const whole = await client.responses.create(asked);
  const call = whole.output.find((item) => item.type === 'function_call')!;
  expect(call).toMatchObject({
    name: 'search',
    status: 'completed',
    call_id: expect.stringMatching(/^call_/u) as string,
  });
  const streamed = await client.responses.stream(asked).finalResponse();
  expect(streamed.output.map((item) => (item.type === 'function_call' ? item.arguments : item.type))).toEqual(
    whole.output.map((item) => (item.type === 'function_call' ? item.arguments : item.type)),
  );
  const output = { type: 'function_call_output' as const, call_id: call.call_id, output: 'nothing found' };
  const byId = await client.responses.create({ ...asked, input: [output], previous_response_id: whole.id });
  const inFull = await client.responses.create({
    ...asked,
    input: [{ role: 'user', content: issue() }, ...(whole.output as []), output],
  });
  expect(byId.usage?.input_tokens).toBe(inFull.usage?.input_tokens);
  expect(byId.usage!.input_tokens).toBeGreaterThan(whole.usage!.input_tokens);
});

it('a call that is asked for is made, by every API', async () => {
  const client = await openAi();
  const forced = await client.responses.create({
    model: 'starter',
    input: issue(),
    tools,
    tool_choice: { type: 'function', name: 'search' },
    parallel_tool_calls: false,
    temperature: 0,
  });
  expect(forced.output.map((item) => (item.type === 'function_call' ? item.name : item.type))).toEqual(['search']);
  const chat = await client.chat.completions.create({
    model: 'starter',
    messages: [{ role: 'user', content: issue() }],
    tools: [tool as never],
    tool_choice: 'required',
    temperature: 0,
    max_completion_tokens: 40,
  });
  expect(chat.choices[0]).toMatchObject({ finish_reason: 'tool_calls' });
});

it('Messages: a text, streamed with the same blocks, and its tokens', async () => {
  const client = await anthropic();
  const asked = {
    model: 'starter',
    max_tokens: 12,
    ...greedy,
    system: [{ type: 'text' as const, text: 'Be short.', cache_control: { type: 'ephemeral' as const } }],
    messages: [{ role: 'user' as const, content: 'Hello' }],
    metadata: { user_id: 'u' },
  };
  const whole = await client.messages.create(asked);
  expect(whole).toMatchObject({ type: 'message', role: 'assistant', model: 'starter' });
  expect(
    (await client.messages.countTokens({ model: 'starter', system: 'Be short.', messages: asked.messages }))
      .input_tokens,
  ).toBe(whole.usage.input_tokens);
  const types: string[] = [];
  const stream = client.messages.stream(asked);
  for await (const event of stream) types.push(event.type);
  const final = await stream.finalMessage();
  expect([final.stop_reason, final.usage.output_tokens]).toEqual([whole.stop_reason, whole.usage.output_tokens]);
  const textOf = (blocks: typeof whole.content) =>
    blocks.map((block) => (block.type === 'text' ? block.text : block.type));
  expect(textOf(final.content)).toEqual(textOf(whole.content));
  expect(types.filter((type, i) => type !== types[i - 1])).toEqual([
    'message_start',
    'content_block_start',
    'content_block_delta',
    'content_block_stop',
    'message_delta',
    'message_stop',
  ]);
});

it('Messages: a tool_use and its result, a stop sequence, a continued text, a context that ends', async () => {
  const client = await anthropic();
  const asked = {
    model: 'starter',
    max_tokens: 40,
    ...greedy,
    tools: [{ name, description, input_schema: parameters as { type: 'object' } }],
    messages: [{ role: 'user' as const, content: issue() }],
  };
  const whole = await client.messages.create(asked);
  const use = whole.content.find((block) => block.type === 'tool_use')!;
  expect([whole.stop_reason, use]).toMatchObject([
    'tool_use',
    { name: 'search', input: { query: expect.any(String) as string } },
  ]);
  const streamed = await client.messages.stream(asked).finalMessage();
  expect(streamed.content.find((block) => block.type === 'tool_use')?.input).toEqual(use.input);
  const next = await client.messages.create({
    ...asked,
    messages: [
      ...asked.messages,
      { role: 'assistant', content: whole.content as never },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'nothing found' }] },
    ],
  });
  expect(next.usage.input_tokens).toBeGreaterThan(whole.usage.input_tokens);
  const forced = await client.messages.create({
    ...asked,
    tool_choice: { type: 'tool', name: 'search', disable_parallel_tool_use: true },
  });
  expect([forced.stop_reason, forced.content.length]).toEqual(['tool_use', 1]);

  const stopped = await client.messages.create({ ...asked, stop_sequences: ['<function'], tools: [] });
  expect([stopped.stop_reason, stopped.stop_sequence]).toEqual(['stop_sequence', '<function']);
  const prefilled = await client.messages.create({
    ...asked,
    tools: [],
    messages: [...asked.messages, { role: 'assistant', content: '<function=search' }],
  });
  const [said] = prefilled.content;
  expect(said?.type === 'text' && !said.text.includes('<function=search')).toBe(true);
  const hot = { temperature: 10 };
  const full = await client.messages.stream({ ...asked, tools: [], max_tokens: 100_000, ...hot }).finalMessage();
  expect(['model_context_window_exceeded', 'end_turn']).toContain(full.stop_reason);
});

it("errors are the clients' own, by type", async () => {
  const client = await anthropic();
  const asked = { model: 'starter', max_tokens: 4, messages: [{ role: 'user' as const, content: 'x' }] };
  await expect(client.messages.create({ ...asked, model: 'other' })).rejects.toMatchObject({
    status: 404,
    type: 'not_found_error',
  });
  await expect(
    client.messages.create({ ...asked, messages: [{ role: 'user', content: 'x'.repeat(100_000) }] }),
  ).rejects.toMatchObject({ status: 400, message: expect.stringContaining('prompt is too long') as string });
  await expect(client.withOptions({ apiKey: 'wrong' }).messages.create(asked)).rejects.toBeInstanceOf(
    Anthropic.AuthenticationError,
  );
  expect((await client.models.list()).data).toMatchObject([{ id: 'starter', type: 'model' }]);
  expect(await client.models.retrieve('starter')).toMatchObject({ display_name: 'starter' });
});
