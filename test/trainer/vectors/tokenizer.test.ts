/** Tokenizer and chat template against Hugging Face transformers. */

import { describe, expect, test } from 'vitest';
import { ChatTemplateRefused } from '../../../trainer/tokenizer/chat-template.ts';
import { loadTokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';
import { type ChatCase, models } from './model-folders.ts';

for (const { file, dir, expected } of models) {
  const tokenizer = await loadTokenizer(dir);
  const { cases, prefix_decodes: prefixes } = expected.tokenizer;

  describe(`${file} tokenizer`, () => {
    test.each(cases.map((one, i) => [`cases[${i}] ${JSON.stringify(one.text)}`, one] as const))('%s', (_, want) => {
      expect(tokenizer.encode(want.text, { addSpecialTokens: true }), 'ids').toEqual(want.ids);
      expect(tokenizer.encode(want.text), 'ids_no_special').toEqual(want.ids_no_special);
      expect(tokenizer.decode(want.ids), 'decoded').toBe(want.decoded);
      expect(tokenizer.decode(want.ids, { skipSpecialTokens: true }), 'decoded_skip_special').toBe(
        want.decoded_skip_special,
      );
    });

    test('prefix_decodes: a character cut by a token boundary reads U+FFFD', () => {
      expect(prefixes.ids.map((_, i) => tokenizer.decode(prefixes.ids.slice(0, i + 1)))).toEqual(prefixes.decoded);
    });

    test('size and special ids', () => {
      expect(tokenizer.size, 'vocab_size').toBe(expected.tokenizer.vocab_size);
      expect(tokenizer.stopTokenIds, 'eos_token_id').toContain(expected.tokenizer.eos_token_id);
      if (expected.tokenizer.pad_token_id !== null)
        expect(tokenizer.padTokenId, 'pad_token_id').toBe(expected.tokenizer.pad_token_id);
      const special = Object.entries(expected.tokenizer.special_ids);
      expect(special.map(([token]) => [token, tokenizer.tokenId(token)])).toEqual(special);
    });
  });

  describe(`${file} chat`, () => {
    const name = (one: ChatCase, i: number): string =>
      `[${i}] ${one.name} ${JSON.stringify(one.kwargs)}${one.tools === null ? '' : ' with tools'}`;

    test.each(expected.chat.map((one, i) => [name(one, i), one] as const))('%s', (_, want) => {
      const { continue_final_message: goOn = false, ...variables } = want.kwargs;
      const input = { messages: want.messages, tools: want.tools, variables, continueFinalMessage: goOn === true };
      const render = (): string => tokenizer.template.render(input);
      if (want.expected_error !== undefined) {
        expect(render).toThrow(ChatTemplateRefused);
        expect(render).toThrow(want.expected_error.message);
        return;
      }
      expect(render(), 'rendered').toBe(want.rendered);
      const ids = tokenizer.encode(render());
      expect(ids, 'ids').toEqual(want.ids);
      if (want.assistant_mask === undefined) return;
      const { text, spans } = tokenizer.template.renderSpans(input);
      expect(tokenizer.maskSpans(text, spans, ids), 'assistant_mask').toEqual(want.assistant_mask);
    });
  });
}
