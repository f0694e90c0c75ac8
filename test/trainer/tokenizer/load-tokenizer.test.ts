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

test.each(['qwen3-tiny', 'llama-tiny'])(
  "%s: the bytes of a text's tokens are its UTF-8, also of parts of characters and of added tokens",
  async (name) => {
    const own = await loadTokenizer(path.join(path.dirname(qwen3Dir), name));
    const text = ` é 🙂 ü\n\t�${own.endOfTurn} 日本 a`;
    const ids = own.encode(text);
    expect(ids.some((id) => own.decode([id]) === '\uFFFD')).toBe(true);
    expect(Buffer.from(ids.flatMap((id) => [...own.bytesOf(id)])).toString('hex')).toBe(
      Buffer.from(text).toString('hex'),
    );
    expect(own.bytesOf(1e9)).toEqual([]);
  },
);

test('tokens of a SentencePiece vocabulary have the bytes of their texts, and of the bytes that they name', () =>
  inScratch(async (dir) => {
    const vocab = Object.fromEntries(['<unk>', '</s>', '<0xC3>', '<0xA9>', '▁', 'a', '▁a', 'b'].map((t, i) => [t, i]));
    const decoders = [
      { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
      { type: 'ByteFallback' },
      { type: 'Fuse' },
      { type: 'Strip', content: ' ', start: 1, stop: 0 },
    ];
    const definition = {
      added_tokens: [{ id: 1, content: '</s>', special: true }],
      normalizer: null,
      pre_tokenizer: null,
      post_processor: null,
      decoder: { type: 'Sequence', decoders },
      model: { type: 'BPE', unk_token: '<unk>', byte_fallback: true, vocab, merges: [['▁', 'a']] },
    };
    await writeFile(path.join(dir, 'tokenizer.json'), JSON.stringify(definition));
    const config = { eos_token: '</s>', chat_template: '{{ messages }}' };
    await writeFile(path.join(dir, 'tokenizer_config.json'), JSON.stringify(config));
    const own = await loadTokenizer(dir);
    const textOf = (ids: readonly number[]) => Buffer.from(ids.flatMap((id) => [...own.bytesOf(id)])).toString();
    expect(own.bytesOf(2)).toEqual([0xc3]);
    // "b", a space and "a", "é", the end: as the whole text is decoded.
    expect(textOf([7, 6, 2, 3, 1])).toBe(own.decode([7, 6, 2, 3, 1]));
    expect(textOf([7, 6, 2, 3, 1])).toBe('b aé</s>');
  }));

test('a directory without tokenizer.json, or without a template, is refused by name', () =>
  inScratch(async (dir) => {
    await expect(loadTokenizer(dir)).rejects.toThrow(UnusableTokenizer);
    await writeFile(path.join(dir, 'tokenizer.json'), JSON.stringify(readJson(qwen3Dir, 'tokenizer.json')));
    await expect(loadTokenizer(dir)).rejects.toThrow(/no chat template/);
  }));
