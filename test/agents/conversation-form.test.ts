/**
 * Hunts policies that are never told their tools, and templates that are given messages that they refuse. Not asserted:
 * that a policy understands the preamble.
 */
import { describe, expect, it } from 'vitest';
import { asText, conversationForm, preambleOf } from '../../agents/conversation-form.ts';
import { codecNamed } from '../../agents/codecs/codecs.ts';
import { renderAfterTurn, renderContinuation } from '../../agents/render-conversation.ts';
import type { ConversationSettings } from '../../protocol/conversation.ts';
import type { Message, ToolSchema } from '../../protocol/message.ts';
import { loadTokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { characterTokenizer } from '../activities/scripted-parts.ts';

const LOOK: ToolSchema = {
  type: 'function',
  function: { name: 'look', description: 'Looks.', parameters: { type: 'object', properties: {}, required: [] } },
};
const user: Message = { role: 'user', content: 'fix it' };
const looked: Message = { role: 'assistant', content: 'I look.', toolCalls: [{ name: 'look', arguments: {} }] };
const seen: Message[] = ['a', 'b'].map((content) => ({ role: 'tool', name: 'look', content }));

const tokenizerOf = (model: string) => loadTokenizer(`test/vectors/models/${model}`);
/** Prints messages and nothing else; `refuses`: the role that it has not. */
const plain = (refuses = 'tool') => ({
  ...characterTokenizer(),
  chatTemplate: '{{ messages }}',
  renderChat: (messages: readonly Message[]) => {
    if (messages.some(({ role }) => role === refuses)) throw new Error(`no role ${refuses}`);
    return messages.map(({ role, content }) => `${role}:${content}$`).join('\n');
  },
});
const whole = (tokenizer: Parameters<typeof conversationForm>[0], settings: ConversationSettings = {}) =>
  conversationForm(tokenizer, settings).whole([user, looked, ...seen], [LOOK]);

describe('a template that lists tools', () => {
  it.each([
    ['qwen2-tiny', 'hermes-json'],
    ['qwen3-tiny', 'hermes-json'],
    ['llama-tiny', 'llama3-json'],
  ])('gets messages as they are: %s', async (model, codec) => {
    const tokenizer = await tokenizerOf(model);
    expect(conversationForm(tokenizer, {}).codec.name).toBe(codec);
    for (const preamble of ['auto', 'always', 'never'] as const)
      expect(whole(tokenizer, { preamble })).toEqual({ messages: [user, looked, ...seen], tools: [LOOK] });
  });

  it('gets text in the form of a codec that is not its own', async () => {
    const { messages, tools } = whole(await tokenizerOf('qwen2-tiny'), { codec: 'skyrl-text' });
    const codec = codecNamed('skyrl-text');
    expect(tools).toEqual([]);
    expect(messages).toEqual([
      { role: 'system', content: preambleOf(codec, [LOOK]) },
      user,
      { role: 'assistant', content: 'I look.\n<function=look>\n</function>' },
      { role: 'user', content: 'EXECUTION RESULT of [look]:\na\nEXECUTION RESULT of [look]:\nb' },
    ]);
  });
});

describe('a template that knows no tools', () => {
  it('gets a preamble in the system message, and answers as one message of the user', () => {
    const system: Message = { role: 'system', content: 'Be brief.' };
    const form = conversationForm(plain(), {});
    const preamble = preambleOf(form.codec, [LOOK]);
    expect(preamble).toContain(JSON.stringify(LOOK.function));
    expect(preamble).toContain(form.codec.form);
    expect(form.whole([system, user], [LOOK]).messages).toEqual([
      { role: 'system', content: `Be brief.\n\n${preamble}` },
      user,
    ]);
    expect(form.whole([user], []).messages).toEqual([user]);
    expect(form.added(seen)).toEqual(asText(seen, form.codec));
    expect(form.added(seen)).toHaveLength(1);
  });

  it('gets it in the first message if it has no system message', () => {
    const form = conversationForm(plain('system'), {});
    expect(form.whole([user], [LOOK]).messages).toEqual([
      { role: 'user', content: `${preambleOf(form.codec, [LOOK])}\n\nfix it` },
    ]);
  });

  it('gets none with preamble: never', () => {
    expect(whole(plain(), { preamble: 'never' }).messages[0]).toEqual(user);
  });
});

it('explains the tools to a template that writes calls and lists no tools only if it is told to', () => {
  const starter = characterTokenizer();
  expect(whole(starter)).toEqual({ messages: [user, looked, ...seen], tools: [LOOK] });
  expect(whole(starter, { preamble: 'always' }).messages).toMatchObject([{ role: 'system' }, user, looked, ...seen]);
});

it('refuses the codec of servers for a policy that samples token ids', () => {
  expect(() => conversationForm(plain(), { codec: 'server' })).toThrow(/agent\.codec.*"server"/u);
});

it('continues after a turn that the template would rewrite', async () => {
  const tokenizer = await tokenizerOf('qwen3-tiny');
  // This template prints an empty reasoning before the last turn alone.
  expect(renderContinuation(tokenizer, [user], seen, [LOOK])).toBeUndefined();
  const ids = renderAfterTurn(tokenizer, [user], seen, [LOOK]);
  expect(ids && tokenizer.decode(ids)).toMatch(/^\n<\|im_start\|>user\n<tool_response>\na\n[\s\S]*assistant\n$/u);
});
