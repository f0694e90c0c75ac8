/** Tokenizer and chat template against Hugging Face transformers. */

import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { ChatTemplateRefused } from '../../../trainer/tokenizer/chat-template.ts';
import { UnusableTokenizer, loadTokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';
import { inScratch, qwen3Dir, readJson } from '../tiny-policy.ts';

interface ChatCase {
  readonly name: string;
  readonly messages: ReadonlyArray<Record<string, unknown>>;
  readonly tools: readonly unknown[] | null;
  readonly kwargs: Record<string, unknown>;
  readonly rendered?: string;
  readonly ids?: number[];
  readonly expected_error?: { readonly message: string };
}

interface Expected {
  readonly tokenizer: {
    readonly cases: ReadonlyArray<{
      text: string;
      ids: number[];
      ids_no_special: number[];
      decoded: string;
      decoded_skip_special: string;
    }>;
    readonly prefix_decodes: { readonly ids: number[]; readonly decoded: string[] };
    readonly vocab_size: number;
  };
  readonly chat: readonly ChatCase[];
}

const expected = readJson<Expected>(qwen3Dir, 'expected.json');
const tokenizer = await loadTokenizer(qwen3Dir);

describe('tokens', () => {
  test.each(expected.tokenizer.cases.map((c) => [c.text, c] as const))('%j', (text, want) => {
    expect(tokenizer.encode(text, { addSpecialTokens: true })).toEqual(want.ids);
    expect(tokenizer.encode(text)).toEqual(want.ids_no_special);
    expect(tokenizer.decode(want.ids)).toBe(want.decoded);
    expect(tokenizer.decode(want.ids, { skipSpecialTokens: true })).toBe(want.decoded_skip_special);
  });

  test('a character cut by a token boundary reads U+FFFD', () => {
    const { ids, decoded } = expected.tokenizer.prefix_decodes;
    expect(ids.map((_, i) => tokenizer.decode(ids.slice(0, i + 1)))).toEqual(decoded);
  });

  test('size, stop ids, end of turn, padding', () => {
    expect(tokenizer.size).toBe(expected.tokenizer.vocab_size);
    expect(tokenizer.stopTokenIds).toEqual([505]);
    expect(tokenizer.endOfTurn).toBe('<|im_end|>');
    expect(tokenizer.padTokenId).toBe(503);
  });
});

describe('chat', () => {
  test.each(expected.chat.map((c) => [`${c.name} ${JSON.stringify(c.kwargs)}`, c] as const))('%s', (_, want) => {
    const { continue_final_message: goOn = false, ...variables } = want.kwargs;
    const render = (): string =>
      tokenizer.template.render({
        messages: want.messages,
        tools: want.tools,
        variables,
        continueFinalMessage: goOn === true,
      });
    if (want.expected_error !== undefined) {
      expect(render).toThrow(ChatTemplateRefused);
      expect(render).toThrow(want.expected_error.message);
      return;
    }
    expect(render()).toBe(want.rendered);
    expect(tokenizer.encode(render())).toEqual(want.ids);
  });

  test("our own messages reach the template in OpenAI's shape", () => {
    const text = tokenizer.renderChat(
      [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: '', toolCalls: [{ name: 'bash', arguments: { command: 'ls "a"' } }] },
        { role: 'tool', name: 'bash', content: 'b' },
      ],
      [],
      { addGenerationPrompt: true },
    );
    expect(text).toContain('<tool_call>\n{"name": "bash", "arguments": {"command": "ls \\"a\\""}}\n</tool_call>');
    expect(text.endsWith('<|im_start|>assistant\n')).toBe(true);
  });
});

test('a directory without tokenizer.json, or without a template, is refused by name', () =>
  inScratch(async (dir) => {
    await expect(loadTokenizer(dir)).rejects.toThrow(UnusableTokenizer);
    await writeFile(path.join(dir, 'tokenizer.json'), JSON.stringify(readJson(qwen3Dir, 'tokenizer.json')));
    await expect(loadTokenizer(dir)).rejects.toThrow(/no chat template/);
  }));
