/** Makes the starter policy's tokenizer from demonstrations of its first training tasks, always with the same bytes. */

import type { Message } from '../../protocol/message.ts';
import { ChatTemplate, templateMessage } from '../../trainer/tokenizer/chat-template.ts';
import { demonstrate } from '../../tasks/swe-mini/demonstrations.ts';
import { SYLLABLES } from '../../tasks/swe-mini/names.ts';
import { makeTokenizerFiles, type TokenizerFiles, type TokenizerForm } from '../tokenizer/tokenizer-files.ts';
import { CALL_TOKENS, CHAT_TEMPLATE, END, PADDING, ROLES, roleToken } from './chat-template.ts';

/**
 * Identifiers never include a space, so a name has the same tokens in prose, code and paths. Each digit is a word. A
 * keyword includes the space after it, a word of prose the space before it.
 */
const WORD_PATTERN = String.raw`(?:def|return|if) |\.py|\p{N}| ?[A-Za-z]+| ?\x60| ?[^\sA-Za-z0-9\x60.:"]+ ?|[.:"]+|\s+`;

const FORM: TokenizerForm = {
  pattern: WORD_PATTERN,
  atoms: SYLLABLES,
  special: [PADDING, END, ...ROLES.map(roleToken)],
  added: CALL_TOKENS,
  end: END,
  padding: PADDING,
  chatTemplate: CHAT_TEMPLATE,
};

export interface StarterTokenizerOptions {
  /** Most ids. A multiple of 16 keeps the engine's rows aligned. */
  readonly size: number;
  /** Number of demonstrations from which the merges are learned. */
  readonly conversations: number;
  /** The policy's longest context. In tokens. */
  readonly maxLength: number;
}

export function makeStarterTokenizer({ size, conversations, maxLength }: StarterTokenizerOptions): TokenizerFiles {
  const template = new ChatTemplate(CHAT_TEMPLATE, {});
  const render = (messages: readonly Message[]): string =>
    template.render({
      messages: messages.map(templateMessage),
      tools: null,
      variables: { add_generation_prompt: false },
    });
  const texts = Array.from({ length: conversations }, (_, i) =>
    render(demonstrate(`swe-mini-train-${i}`, 'even').messages),
  );
  return makeTokenizerFiles(FORM, texts, size, maxLength);
}
