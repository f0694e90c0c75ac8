/**
 * Hunts prompts that are encoded although they cannot fit, prompts that fit and are refused, and failures of a chat
 * template on a caller's data that are reported as the server's.
 */
import { expect, it, vi } from 'vitest';
import { prepareRequest, type PromptModel } from '../../../servers/openai/prepare-request.ts';
import { ChatTemplate, templateMessage, templateTool } from '../../../trainer/tokenizer/chat-template.ts';

const encode = vi.fn<(text: string) => number[]>();

/** Two bytes per token, which is also its longest token. */
function modelOf(template: string): PromptModel {
  encode.mockReset();
  encode.mockImplementation((text) => Array.from({ length: Math.ceil(Buffer.byteLength(text) / 2) }, () => 1));
  const chat = new ChatTemplate(template, {});
  const renderChat: PromptModel['tokenizer']['renderChat'] = (messages, tools, { addGenerationPrompt }) =>
    chat.render({
      messages: messages.map(templateMessage),
      tools: tools.map(templateTool),
      variables: { add_generation_prompt: addGenerationPrompt },
    });
  const of = { longestToken: 2, lastToken: 9, stopTokenIds: [12], chatTemplate: template };
  return { name: 'm', contextTokens: 20, tokenizer: { encode, renderChat, ...of } };
}
const plain = '{% for message in messages %}{{ message.content }}{% endfor %}';
const read = (kind: 'chat' | 'completion', body: object | string, template = plain) =>
  prepareRequest(
    kind,
    Buffer.from(typeof body === 'string' ? body : JSON.stringify({ model: 'm', ...body })),
    modelOf(template),
  );
const tooLong = expect.objectContaining({ status: 400, code: 'context_length_exceeded' }) as Error;

it('a text fits if its tokens and the answer fit', () => {
  expect(read('completion', { prompt: 'é'.repeat(16), max_tokens: 4 })).toMatchObject({ prompts: [Array(16).fill(1)] });
  expect(read('chat', { messages: [{ role: 'user', content: 'x'.repeat(38) }] })).toMatchObject({
    turn: { prompt: Array(19).fill(1), maxTokens: undefined },
  });
});

it.each([
  ['text', 'completion', { prompt: 'x'.repeat(33), max_tokens: 4 }],
  ['one text of several', 'completion', { prompt: ['é'.repeat(17)], max_tokens: 4 }],
  ['conversation', 'chat', { messages: [{ role: 'user', content: 'x'.repeat(39) }] }],
] as const)('a %s that is too long is refused before it is encoded', (_, kind, body) => {
  expect(() => read(kind, body)).toThrow(tooLong);
  expect(encode).not.toHaveBeenCalled();
});

it('ids that are too long are refused, and so is a text whose tokens are shorter than the longest', () => {
  expect(() => read('completion', { prompt: Array(17).fill(1), max_tokens: 4 })).toThrow(tooLong);
  const model = modelOf(plain);
  encode.mockImplementation((text) => Array.from(text, () => 1));
  const body = Buffer.from('{"model": "m", "prompt": "12345678901234567", "max_tokens": 4}');
  expect(() => prepareRequest('completion', body, model)).toThrow(tooLong);
});

it('more messages than the context has tokens are refused before they are rendered', () => {
  const messages = Array(20).fill({ role: 'user', content: '' });
  expect(() => read('chat', { messages }, '{{ raise_exception("rendered") }}')).toThrow(tooLong);
});

it('too many answers are refused before anything is encoded', () => {
  expect(() => read('completion', { prompt: ['a', 'b'], n: 64 })).toThrow(
    expect.objectContaining({ status: 400, param: 'n' }) as Error,
  );
  expect(encode).not.toHaveBeenCalled();
});

it.each([
  // Like templates that write a schema level by level, on a deep one.
  ['what takes more stack than there is', '{% macro show(s) %}{{ show(s) }}{% endmacro %}{{ show(tools) }}'],
  ['what it does not expect', '{{ messages[0].content.nowhere() }}'],
  ['what it refuses', '{{ raise_exception("no") }}'],
])("a template that fails on %s is the caller's mistake", (_, template) => {
  const tools = [{ type: 'function', function: { name: 't', parameters: {} } }];
  const body = { messages: [{ role: 'user', content: 'x' }], tools };
  expect(() => read('chat', body, template)).toThrow(
    expect.objectContaining({ name: 'ApiError', status: 400, param: 'messages' }) as Error,
  );
});

it('bytes that are no UTF-8 are refused, wherever they stand, and so are stop tokens that the policy lacks', () => {
  const body = (middle: number[], stops: number[]) => {
    const [head, tail] = [
      '{"model": "m", "prompt": "a',
      `", "max_tokens": 1, "stop_token_ids": ${JSON.stringify(stops)}}`,
    ];
    return Buffer.concat([Buffer.from(head), Buffer.from(middle), Buffer.from(tail)]);
  };
  const prepared = (middle: number[], stops: number[] = []) =>
    prepareRequest('completion', body(middle, stops), modelOf(plain));
  for (const bytes of [[0xff, 0xfe], [0xc3], [0xed, 0xa0, 0x80], [0xc0, 0xaf]])
    expect(() => prepared(bytes)).toThrow('the body is not UTF-8');
  expect(prepared([0xc3, 0xa9], [9, 12])).toMatchObject({ kind: 'completion' });
  expect(() => prepared([], [9, 10])).toThrow('stop_token_ids.1: the vocabulary ends with token 9');
});
