/** The starter's tokenizer and template: no text is lost, and a conversation only grows at its end. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { parseTurn } from '../../../agents/codecs/codec.ts';
import { codecOfTemplate } from '../../../agents/codecs/codecs.ts';
import { renderContinuation, renderPrompt } from '../../../agents/render-conversation.ts';
import { CALL_TOKENS, END } from '../../../recipes/starter/chat-template.ts';
import { makeStarterTokenizer } from '../../../recipes/starter/make-tokenizer.ts';
import { trainBpe } from '../../../recipes/tokenizer/train-bpe.ts';
import { type Demonstration, demonstrate } from '../../../tasks/swe-mini/demonstrations.ts';
import { SYLLABLES } from '../../../tasks/swe-mini/names.ts';
import { loadTokenizer, type Tokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';

const OPTIONS = { size: 512, conversations: 2000, maxLength: 704 };
const files = makeStarterTokenizer(OPTIONS);
let dir = '';
let tokenizer: Tokenizer;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'longhaul-tokenizer-'));
  for (const name of ['tokenizer.json', 'tokenizer_config.json'] as const)
    await writeFile(join(dir, name), files[name]);
  tokenizer = await loadTokenizer(dir);
});

afterAll(async () => {
  await rm(dir, { recursive: true, force: true });
});

const demonstrations = (count: number): Demonstration[] =>
  Array.from({ length: count }, (_, i) => demonstrate(`swe-mini-held-out-${i}`, 'mixed'));
const render = (messages: Demonstration['messages']): string =>
  tokenizer.renderChat(messages, [], { addGenerationPrompt: false });
const ids = (text: string): number[] => tokenizer.encode(text);

describe('the tokenizer', () => {
  it('has the same files each time', () => {
    expect(makeStarterTokenizer(OPTIONS)).toEqual(files);
    expect(files.size).toBe(512);
    expect(tokenizer.size).toBe(512);
  });

  it('decodes any text to itself', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', maxLength: 40 }),
        (text) => tokenizer.decode(ids(text)) === text.toWellFormed(),
      ),
    );
    for (const { messages } of demonstrations(100))
      expect(tokenizer.decode(ids(render(messages)))).toBe(render(messages));
  });

  it('encodes a name as the same two tokens everywhere', () => {
    for (const [i, first] of SYLLABLES.entries()) {
      const second = SYLLABLES[(i * 7 + 3) % SYLLABLES.length] ?? '';
      const name = ids(first + second);
      expect(name, first + second).toHaveLength(2);
      for (const [before, after] of [
        ['def ', '('],
        [' `', '`'],
        ['/', '.py'],
        ['["', '"]'],
        ['return ', ' + '],
        [', ', '):'],
        ['\n', ':'],
      ] as const) {
        expect(ids(before + first + second + after)).toEqual([...ids(before), ...name, ...ids(after)]);
      }
    }
  });

  it('encodes each digit, and each fixed part of a call, as one token', () => {
    expect(ids('0123456789')).toHaveLength(10);
    for (const token of CALL_TOKENS) expect(ids(token), token).toHaveLength(1);
  });

  it('uses few tokens for a rollout', () => {
    const lengths = demonstrations(200).map(({ messages }) => ids(render(messages)).length);
    // Half of quickstart's limit of a rollout, including slips and their repairs.
    expect(Math.max(...lengths)).toBeLessThanOrEqual(350);
  });
});

describe('the chat template', () => {
  it('writes calls in the form that the parser reads, and the parser reads them back', () => {
    const codec = codecOfTemplate(tokenizer.chatTemplate);
    expect(codec.name).toBe('function-xml');
    for (const { messages } of demonstrations(100)) {
      for (const message of messages) {
        if (message.role !== 'assistant') continue;
        const text = render([message]);
        const spoken = text.slice('<|assistant|>'.length, -END.length);
        expect(parseTurn(spoken, codec)).toEqual({ kind: 'calls', content: '', calls: message.toolCalls });
      }
    }
  });

  it('lets a conversation grow only at its end', () => {
    for (const { messages } of demonstrations(40)) {
      const whole = render(messages);
      for (let n = 1; n <= messages.length; n += 1) {
        const part = render(messages.slice(0, n));
        expect(whole.startsWith(part)).toBe(true);
        expect(tokenizer.renderChat(messages.slice(0, n), [], { addGenerationPrompt: true })).toBe(
          `${part}<|assistant|>`,
        );
        expect(ids(whole).slice(0, ids(part).length)).toEqual(ids(part));
      }
    }
  });

  it('continues a sampled turn to the same ids as the whole conversation', () => {
    const { messages } = demonstrations(1)[0] ?? { messages: [] };
    const [prompt, view, answer, edit] = messages;
    if (!prompt || !view || !answer || !edit) throw new Error('a demonstration has a view and an edit');
    const first = renderPrompt(tokenizer, [prompt], []);
    const sampled = ids(render([view])).slice(1);
    const added = renderContinuation(tokenizer, [prompt], [answer], []);
    expect([...first, ...sampled, ...(added ?? [])]).toEqual(ids(`${render([prompt, view, answer])}<|assistant|>`));
  });

  it('prints content before calls, a system message, and arguments that are not strings', () => {
    const text = tokenizer.renderChat(
      [
        { role: 'system', content: 'Be brief.' },
        {
          role: 'assistant',
          content: 'Look.',
          toolCalls: [{ name: 'bash', arguments: { command: 'ls', timeout: 3 } }],
        },
      ],
      [],
      { addGenerationPrompt: false },
    );
    expect(text).toBe(
      '<|system|>Be brief.<|im_end|><|assistant|>Look.\n<function=bash>\n<parameter=command>ls</parameter>\n<parameter=timeout>3</parameter>\n</function><|im_end|>',
    );
  });
});

describe('the trainer of merges', () => {
  it('merges the most frequent pair first, and atoms before all texts', () => {
    const { merges, vocabulary } = trainBpe({
      atoms: ['xy'],
      texts: ['abab abab zq'],
      split: (text) => text.split(' '),
      vocabularySize: 259,
      minimumCount: 2,
    });
    expect(merges).toEqual([
      ['x', 'y'],
      ['a', 'b'],
      ['ab', 'ab'],
    ]);
    expect(vocabulary.get('abab')).toBe(258);
  });

  it('stops if no pair is frequent enough', () => {
    const { merges } = trainBpe({
      atoms: [],
      texts: ['ab', 'cd'],
      split: (text) => [text],
      vocabularySize: 300,
      minimumCount: 2,
    });
    expect(merges).toEqual([]);
  });
});
