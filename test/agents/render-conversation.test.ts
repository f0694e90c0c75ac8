import { describe, expect, it } from 'vitest';
import type { Message } from '../../protocol/message.ts';
import { type ChatTokenizer, renderContinuation, renderPrompt } from '../../agents/render-conversation.ts';

/** Uses characters as tokens and a hand-written template: the tests check where text is cut. */
const tokenizerOf = (renderChat: ChatTokenizer['renderChat']): ChatTokenizer => ({
  encode: (text) => Array.from(text, (c) => c.codePointAt(0) ?? 0),
  decode: (ids) => String.fromCodePoint(...ids),
  renderChat,
  endOfTurn: '$',
});
const stable = tokenizerOf(
  (messages, _tools, { addGenerationPrompt }) =>
    messages.map((m) => `[${m.role}]${m.content}$\n`).join('') + (addGenerationPrompt ? '[assistant]' : ''),
);

const first: Message[] = [{ role: 'user', content: 'fix it' }];
const answer: Message[] = [{ role: 'tool', name: 'bash', content: 'ok' }];

describe('a conversation', () => {
  it('starts with the rendered prompt', () => {
    expect(stable.decode(renderPrompt(stable, first, []))).toBe('[user]fix it$\n[assistant]');
  });

  it('continues after the end-of-turn token, whatever was sampled before it', () => {
    const ids = renderContinuation(stable, first, answer, []);
    expect(ids && stable.decode(ids)).toBe('\n[tool]ok$\n[assistant]');
  });

  it('is undefined if the template rewrites earlier messages', () => {
    const forgetful = tokenizerOf((messages) =>
      messages
        .slice(-1)
        .map((m) => `[${m.role}]${m.content}$`)
        .join(''),
    );
    expect(renderContinuation(forgetful, first, answer, [])).toBeUndefined();
  });
});
