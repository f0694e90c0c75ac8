/** What a tokenizer's directory must hold; its tokens and texts are held to Hugging Face's in `test/trainer/vectors`. */

import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { UnusableTokenizer, loadTokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';
import { inScratch, qwen3Dir, readJson } from '../tiny-policy.ts';

const tokenizer = await loadTokenizer(qwen3Dir);

describe('tokens', () => {
  test('size, stop ids, end of turn, padding', () => {
    expect(tokenizer.size).toBe(512);
    expect(tokenizer.stopTokenIds).toEqual([505]);
    expect(tokenizer.endOfTurn).toBe('<|im_end|>');
    expect(tokenizer.padTokenId).toBe(503);
  });
});

describe('chat', () => {
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
