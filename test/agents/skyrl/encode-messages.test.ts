/**
 * SkyRL-Agent's own incremental encoding, case by case. Where the original cuts at a length that belongs to another
 * text (`prefix_consistent: false`), the ids are those that the policy would see: its turn, then what follows.
 */

import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { OpenAiMessage } from '../../../agents/codecs/skyrl-messages.ts';
import type { ChatTokenizer } from '../../../agents/render-conversation.ts';
import { encodeMessages } from '../../../agents/skyrl/encode-messages.ts';
import { templateMessage } from '../../../trainer/tokenizer/chat-template.ts';
import { loadTokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';
import { readVectors, vectorsFolder } from '../../support/vectors.ts';

interface Case {
  readonly name: string;
  readonly tokenizer: string;
  readonly enable_thinking: boolean;
  readonly messages: readonly OpenAiMessage[];
  readonly is_first_message: boolean;
  readonly add_generation: boolean;
  readonly expected: { readonly ids: number[]; readonly text: string; readonly prefix_consistent?: boolean };
}

const { message_encoding: cases } = readVectors<{ readonly message_encoding: readonly Case[] }>('transitions.json');

async function tokenizerOf({ tokenizer: name, enable_thinking: thinks }: Case): Promise<ChatTokenizer> {
  const tokenizer = await loadTokenizer(join(vectorsFolder, 'models', name));
  return {
    ...tokenizer,
    renderChat: (messages, _tools, { addGenerationPrompt }) =>
      tokenizer.template.render({
        messages: messages.map(templateMessage),
        tools: null,
        variables: { add_generation_prompt: addGenerationPrompt, enable_thinking: thinks },
      }),
  };
}

const named = (some: readonly Case[]) =>
  some.map((one) => [`${one.name}, thinking ${one.enable_thinking}`, one] as const);
const encoded = async (one: Case) =>
  encodeMessages(await tokenizerOf(one), one.messages, {
    isFirst: one.is_first_message,
    addGenerationPrompt: one.add_generation,
  });

describe('messages, encoded as SkyRL encodes them', () => {
  it.each(named(cases.filter(({ expected }) => expected.prefix_consistent !== false)))('%s', async (_name, one) => {
    const ids = await encoded(one);
    expect((await tokenizerOf(one)).decode(ids)).toBe(one.expected.text);
    expect(ids).toEqual(one.expected.ids);
  });

  it.each(named(cases.filter(({ expected }) => expected.prefix_consistent === false)))(
    '%s: whole turns, where the original cuts inside of one',
    async (_name, one) => {
      const tokenizer = await tokenizerOf(one);
      const text = tokenizer.decode(await encoded(one));
      expect(text.endsWith(one.expected.text)).toBe(true);
      const { content } = one.messages[0] as { readonly content: string };
      expect(text.startsWith(`${content}${tokenizer.endOfTurn}`)).toBe(true);
    },
  );
});
