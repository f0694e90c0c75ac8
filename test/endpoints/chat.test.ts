/** Hunts chat answers that are misread because a server's format differs slightly from OpenAI's. */
import { describe, expect, it } from 'vitest';
import { MAX_DEPTH } from '../../protocol/written-json.ts';
import { chatRequest, parseChatTurn, readChat } from '../../endpoints/chat.ts';
import type { FinishWords } from '../../protocol/endpoint.ts';
import { resolveEndpoint } from '../../workflows/rollout/resolve-policy.ts';

const endpointOf = (over: object) =>
  resolveEndpoint({ baseUrl: 'http://h/v1', model: 'm', mode: 'chat', ...over }, 'endpoint', (field) => {
    throw new Error(field);
  });
const call = {
  messages: [{ role: 'user', content: 'hi' }],
  tools: [],
  sampling: { temperature: 0.5, topP: 0.9, topK: 0, maxTokens: 7 },
};
const saying = (message: object, rest: object = {}) => ({ choices: [{ finish_reason: 'stop', message, ...rest }] });

describe('a request', () => {
  it('without tools has no list of tools: some servers reject an empty one', () => {
    expect(chatRequest(endpointOf({}), call)).toEqual({
      model: 'm',
      messages: call.messages,
      temperature: 0.5,
      top_p: 0.9,
      max_tokens: 7,
      stream: false,
    });
  });

  it("has the server's name for the token limit, and its extra fields", () => {
    const own = {
      maxTokensField: 'max_completion_tokens',
      extraBody: { chat_template_kwargs: { enable_thinking: false } },
    };
    const request = chatRequest(endpointOf(own), call);
    expect(request).toMatchObject({ max_completion_tokens: 7, chat_template_kwargs: { enable_thinking: false } });
    expect(request).not.toHaveProperty('max_tokens');
  });
});

describe('an answer', () => {
  it.each([
    ['text', '{"command":"ls"}', '{"command":"ls"}'],
    ['an object', { command: 'ls' }, '{"command":"ls"}'],
    ['nothing', null, '{}'],
  ])('with arguments as %s is read', (_, given, text) => {
    const { turn } = readChat(
      saying({ content: null, tool_calls: [{ function: { name: 'bash', arguments: given } }] }),
    );
    expect(turn).toEqual({ content: '', toolCalls: [{ id: 'call_0', name: 'bash', arguments: text }] });
    expect(parseChatTurn(turn).kind).toBe('calls');
  });

  it('without usage has no counts, instead of zeros', () => {
    expect(readChat(saying({ content: 'hi' })).usage).toBeNull();
  });

  it('with reasoning keeps it separate from the content', () => {
    const { turn } = readChat(saying({ content: 'hi', reasoning_content: 'hm' }));
    expect(turn).toEqual({ content: 'hi', toolCalls: [], reasoning: 'hm' });
    expect(parseChatTurn(turn)).toEqual({ kind: 'no-call', content: 'hi' });
  });

  it("with reasoning under vLLM's later name keeps it too", () => {
    expect(readChat(saying({ content: 'hi', reasoning: 'hm' })).turn).toEqual({
      content: 'hi',
      toolCalls: [],
      reasoning: 'hm',
    });
    expect(readChat(saying({ content: 'hi', reasoning: null })).turn).toEqual({ content: 'hi', toolCalls: [] });
  });

  // An error here would count as the worker's, and would mask the rollout.
  it('with arguments that are nested too deep is no call, as text or as an object', () => {
    for (const depth of [MAX_DEPTH, 2_500, 10_000]) {
      const text = `{"a": ${'['.repeat(depth)}${']'.repeat(depth)}}`;
      const answer = (given: unknown) =>
        readChat(saying({ content: null, tool_calls: [{ function: { name: 'bash', arguments: given } }] }));
      expect(parseChatTurn(answer(text).turn)).toMatchObject({
        kind: 'malformed',
        error: expect.stringMatching(/nested more than \d+ deep/) as unknown,
      });
      expect(answer(JSON.parse(text))).toEqual({
        turn: { content: '', toolCalls: [] },
        finish: 'unreadable',
        usage: null,
      });
    }
    const most = `{"a":${'['.repeat(MAX_DEPTH - 1)}${']'.repeat(MAX_DEPTH - 1)}}`;
    for (const given of [most, JSON.parse(most) as unknown])
      expect(
        parseChatTurn(readChat(saying({ tool_calls: [{ function: { name: 'bash', arguments: given } }] })).turn).kind,
      ).toBe('calls');
  });

  it.each([
    ['no choice', { choices: [] }],
    ['a choice without a message', { choices: [{ text: 'hi' }] }],
  ])('that is %s is no answer', (_, body) => {
    expect(() => readChat(body)).toThrow(expect.objectContaining({ kind: 'malformed', isTransient: true }));
  });

  it('with a field of another type names the field and what is wrong', () => {
    expect(() => readChat(saying({ content: 5 }))).toThrow(/chat completion .*choices\.0\.message\.content: .*number/);
  });
});

describe('the word for the end of an answer', () => {
  const ended = (finish_reason: unknown, words?: FinishWords) =>
    readChat(saying({ content: 'hi' }, { finish_reason }), words).finish;

  it.each([
    ['stop', 'stop'],
    ['tool_calls', 'stop'],
    ['function_call', 'stop'],
    ['eos_token', 'stop'],
    ['STOP', 'stop'],
    ['length', 'length'],
    ['MAX_TOKENS', 'length'],
    ['content_filter', 'filtered'],
  ])('%s is known', (word, finish) => expect(ended(word)).toBe(finish));

  it.each(['error', 'abort', 'insufficient_system_resource', 'done', 'constructor', '', null, undefined])(
    '%s is no end: the answer is a failure of the server',
    (word) => {
      expect(() => ended(word)).toThrow(expect.objectContaining({ kind: 'unavailable', isTransient: true }));
    },
  );

  it('is named by the message with its remedy, if nobody knows it', () => {
    expect(() => ended('done')).toThrow(/finish_reason "done"\).*finishWords: \{ "done": stop \}/);
    expect(() => ended(null)).toThrow(/no finish_reason\).*finishWords: \{ "null": stop \}/);
    expect(() => ended('error')).toThrow(/finish_reason "error"\)$/);
  });

  it('may be named by the user, also a missing one', () => {
    expect(ended('done', { done: 'length' })).toBe('length');
    expect(ended(null, { null: 'stop' })).toBe('stop');
    expect(() => ended('toString', {})).toThrow(/toString/);
    expect(() => endpointOf({ finishWords: { done: 'whole' } })).toThrow('endpoint.finishWords');
  });
});

describe('an answer of nothing', () => {
  const nothing = (usage: object) => readChat({ ...saying({ content: null }), ...usage });
  const counted = (completion_tokens: number) => ({ usage: { prompt_tokens: 3, completion_tokens } });

  it('is the policy’s if it sampled the end of its turn', () => {
    expect(nothing(counted(1))).toMatchObject({ turn: { content: '', toolCalls: [] }, finish: 'stop' });
    expect(readChat(saying({ content: '' }))).toMatchObject({ turn: { content: '' }, finish: 'stop' });
  });

  it.each([counted(0), {}])('is the server’s failure otherwise', (usage) => {
    expect(() => nothing(usage)).toThrow(expect.objectContaining({ kind: 'unavailable' }));
  });
});
