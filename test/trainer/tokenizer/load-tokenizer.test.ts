/** What a tokenizer's directory must hold. `test/trainer/vectors` compares tokens and texts with Hugging Face's. */

import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { lazyDecoder } from '../../../trainer/tokenizer/lazy-decoder.ts';
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

test.each([
  ['that spaces are cleaned up, as that of Llama 3 does,', true],
  ['nothing of it', undefined],
])('a text is that of its tokens, whatever its configuration says: %s too', (_, cleanUp) =>
  inScratch(async (dir) => {
    await writeFile(path.join(dir, 'tokenizer.json'), JSON.stringify(readJson(qwen3Dir, 'tokenizer.json')));
    const config = {
      ...readJson<object>(qwen3Dir, 'tokenizer_config.json'),
      clean_up_tokenization_spaces: cleanUp,
      chat_template: '{{ messages }}',
    };
    await writeFile(path.join(dir, 'tokenizer_config.json'), JSON.stringify(config));
    const own = await loadTokenizer(dir);
    for (const text of ['cd .. && find . -name a', '[ ! -f b ] , c ?', "print('a' , x != y) ; don 't 's"]) {
      const ids = own.encode(text);
      expect(own.decode(ids)).toBe(text);
      expect(own.decode(ids, { skipSpecialTokens: true })).toBe(text);
      expect(lazyDecoder(dir)(ids)).toBe(text);
    }
  }),
);

test('a directory without tokenizer.json, or without a template, is refused by name', () =>
  inScratch(async (dir) => {
    await expect(loadTokenizer(dir)).rejects.toThrow(UnusableTokenizer);
    await writeFile(path.join(dir, 'tokenizer.json'), JSON.stringify(readJson(qwen3Dir, 'tokenizer.json')));
    await expect(loadTokenizer(dir)).rejects.toThrow(/no chat template/);
  }));
