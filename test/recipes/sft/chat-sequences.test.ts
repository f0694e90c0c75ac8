/**
 * Hunts training on tokens that a policy never reads or samples: ids that differ from those of a rollout, masks that
 * are a token off, and history that the template has rewritten.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseTurn } from '../../../agents/codecs/codec.ts';
import { conversationForm } from '../../../agents/conversation-form.ts';
import { codecOfTemplate } from '../../../agents/codecs/codecs.ts';
import { renderContinuation, renderPrompt } from '../../../agents/render-conversation.ts';
import type { ToolSchema } from '../../../protocol/message.ts';
import type { Chat, ChatTurn } from '../../../recipes/sft/chat-records.ts';
import { chatSequences, UntrainableTurn } from '../../../recipes/sft/chat-sequences.ts';
import { CHAT_FORM } from '../../../recipes/tokenizer/chat-form.ts';
import { makeTokenizerFiles } from '../../../recipes/tokenizer/tokenizer-files.ts';
import { ChatTemplate } from '../../../trainer/tokenizer/chat-template.ts';
import { loadTokenizer, type Tokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';

let tokenizer: Tokenizer;
const dir = mkdtempSync(join(tmpdir(), 'longhaul-chats-'));
const texts = Array.from({ length: 40 }, (_, i) => `The answer to question number ${i} is ${i * 7}, as the tool says.`);
beforeAll(async () => {
  const files = makeTokenizerFiles(CHAT_FORM, texts, 400, 256);
  for (const name of ['tokenizer.json', 'tokenizer_config.json'] as const) writeFileSync(join(dir, name), files[name]);
  tokenizer = await loadTokenizer(dir);
});
afterAll(() => rmSync(dir, { recursive: true }));

const user = (content: string): ChatTurn => ({ message: { role: 'user', content }, trained: false });
const tool = (name: string, content: string): ChatTurn => ({
  message: { role: 'tool', name, content },
  trained: false,
});
const says = (content: string, change: Partial<ChatTurn> = {}): ChatTurn => ({
  message: { role: 'assistant', content },
  trained: true,
  ...change,
});
const calls: ChatTurn = {
  message: {
    role: 'assistant',
    content: 'I look.',
    toolCalls: [
      { name: 'look', arguments: { path: 'a', depth: 1 }, written: '{"path":"a","depth":1.0}' },
      { name: 'list', arguments: {} },
    ],
  },
  trained: true,
};
const LOOK: ToolSchema = {
  type: 'function',
  function: { name: 'look', description: 'Looks at a path.', parameters: { type: 'object', properties: {} } },
};

/** The texts of each sequence's trained tokens, one by the end of a turn. */
const trainedTexts = (chat: Chat, by = tokenizer): string[][] =>
  chatSequences(by, chat).map(({ tokens, mask }) =>
    by.decode(tokens.filter((_, i) => mask[i] === 1)).split(/(?<=<\|im_end\|>)/u),
  );

describe('a chat of tools', () => {
  const turns = [user('Where is it?'), calls, tool('look', 'here'), tool('list', 'there'), says('It is here.')];
  const chat: Chat = { turns, tools: [LOOK] };

  it('is one sequence: what the assistant says up to the end of its turns is trained', () => {
    const [first, second] = trainedTexts(chat)[0] ?? [];
    expect(trainedTexts(chat)).toHaveLength(1);
    expect(second).toBe('It is here.<|im_end|>');
    const said = first?.slice(0, -'<|im_end|>'.length) ?? '';
    expect(parseTurn(said, codecOfTemplate(tokenizer.chatTemplate))).toEqual({
      kind: 'calls',
      content: 'I look.',
      calls: [
        calls.message.role === 'assistant' ? calls.message.toolCalls?.[0] : undefined,
        { name: 'list', arguments: {} },
      ],
    });
  });

  it('has the ids that a rollout would have', () => {
    const [sequence] = chatSequences(tokenizer, chat);
    const { tokens, mask } = sequence ?? { tokens: [], mask: [] };
    const messages = turns.map(({ message }) => message);
    const prompt = renderPrompt(tokenizer, messages.slice(0, 1), [LOOK]);
    expect(tokens.slice(0, prompt.length)).toEqual(prompt);
    expect(mask.slice(0, prompt.length + 1)).toEqual([...prompt.map(() => 0), 1]);
    const sampled = mask.indexOf(0, prompt.length);
    const answers = renderContinuation(tokenizer, messages.slice(0, 1), messages.slice(2, 4), [LOOK]) ?? [];
    expect(tokens.slice(sampled, sampled + answers.length)).toEqual(answers);
    expect(mask.slice(sampled).indexOf(1)).toBe(answers.length);
  });
});

it('a template that knows no tools gets calls as text, as in rollouts', () => {
  const source = `{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}`;
  const template = new ChatTemplate(source, {});
  const plain = {
    ...tokenizer,
    template,
    chatTemplate: source,
    renderChat: (...[messages, , { addGenerationPrompt }]: Parameters<typeof tokenizer.renderChat>) =>
      template.render({
        messages: messages.map((message) => ({ ...message })),
        tools: null,
        variables: { add_generation_prompt: addGenerationPrompt },
      }),
  };
  const chat: Chat = { turns: [user('Where?'), calls, tool('look', 'here'), says('Here.')], tools: [LOOK] };
  const [first, second] = trainedTexts(chat, plain)[0] ?? [];
  expect(parseTurn(first?.slice(0, -'<|im_end|>'.length) ?? '', codecOfTemplate(source))).toMatchObject({
    calls: [{ name: 'look' }, { name: 'list' }],
  });
  expect(second).toBe('Here.<|im_end|>');
  const messages = chat.turns.map(({ message }) => message);
  const whole = conversationForm(plain, {}).whole(messages.slice(0, 1), [LOOK]);
  const prompt = renderPrompt(plain, whole.messages, whole.tools);
  expect(plain.decode(prompt)).toContain('You can call these tools');
  expect(chatSequences(plain, chat)[0]?.tokens.slice(0, prompt.length)).toEqual(prompt);
});

it('messages that are not trained are context', () => {
  const chat = { turns: [user('a'), says('wrong', { trained: false }), user('b'), says('right')], tools: [] };
  expect(trainedTexts(chat)).toEqual([['right<|im_end|>']]);
  expect(tokenizer.decode(chatSequences(tokenizer, chat)[0]?.tokens ?? [])).toContain('wrong<|im_end|>');
});

it('a turn whose history the template rewrites begins a sequence of its own', () => {
  // As Qwen3's: reasoning is printed in the last turn alone.
  const source = `{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\\n' -}}
{%- if message.reasoning_content and loop.last -%}{{- '<think>' + message.reasoning_content + '</think>' -}}{%- endif -%}
{{- message.content + '<|im_end|>\\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}`;
  const forgetful = { ...tokenizer, template: new ChatTemplate(source, {}) };
  const turns = [user('a'), says('b', { reasoning: 'why b' }), user('c'), says('d', { reasoning: 'why d' })];
  expect(trainedTexts({ turns, tools: [] }, forgetful)).toEqual([
    ['<think>why b</think>b<|im_end|>'],
    ['<think>why d</think>d<|im_end|>'],
  ]);
  const [, second] = chatSequences(forgetful, { turns, tools: [] });
  expect(tokenizer.decode(second?.tokens ?? [])).not.toContain('why b');
  expect(trainedTexts({ turns, tools: [] })).toEqual([
    ['<think>\nwhy b\n</think>\n\nb<|im_end|>', '<think>\nwhy d\n</think>\n\nd<|im_end|>'],
  ]);
});

it('a turn that the template prints otherwise than its own prompt is refused', () => {
  const source = `{%- for message in messages -%}{{- message.role + message.content + '<|im_end|>' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'assistant<think>' -}}{%- endif -%}`;
  const odd = { ...tokenizer, template: new ChatTemplate(source, {}) };
  expect(() => chatSequences(odd, { turns: [user('a'), says('b')], tools: [] })).toThrow(UntrainableTurn);
});

describe('the tokenizer of a new policy', () => {
  it('loses no text, and fills its vocabulary from the texts', () => {
    for (const text of [...texts, 'ä\u2028 \n\n  x\t{"a": [1.5]}', 'it’s, it’ll']) {
      expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
    }
    expect(tokenizer.encode(' answer')).toHaveLength(1);
    expect(tokenizer.encode('<|im_start|>')).toHaveLength(1);
  });

  it('prints a conversation as a prefix of every one that continues it', () => {
    const messages = [user('a'), calls, tool('look', 'b'), says('c'), user('d'), says('e')].map(
      ({ message }) => message,
    );
    const render = (count: number, addGenerationPrompt: boolean) =>
      tokenizer.renderChat(messages.slice(0, count), [LOOK], { addGenerationPrompt });
    for (let n = 1; n <= messages.length; n += 1) {
      expect(render(messages.length, false).startsWith(render(n, false))).toBe(true);
      expect(render(n, true)).toBe(`${render(n, false)}<|im_start|>assistant\n`);
    }
    const system = { role: 'system' as const, content: 'Be brief.' };
    const told = tokenizer.renderChat([system, ...messages.slice(0, 1)], [LOOK], { addGenerationPrompt: false });
    expect(told).toMatch(/^<\|im_start\|>system\nBe brief\.\n\n# Tools\n/u);
    expect(told.match(/Be brief\./gu)).toHaveLength(1);
    expect(told).toContain('"description": "Looks at a path."');
  });
});
