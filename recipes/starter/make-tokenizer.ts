/** Makes the starter policy's tokenizer from demonstrations of its first training tasks, always with the same bytes. */

import type { Message } from '../../protocol/message.ts';
import { ChatTemplate, templateMessage } from '../../trainer/tokenizer/chat-template.ts';
import { demonstrate } from '../../tasks/swe-mini/demonstrations.ts';
import { SYLLABLES } from '../../tasks/swe-mini/names.ts';
import { CHAT_TEMPLATE } from './chat-template.ts';
import { makeTokenizerFiles, type TokenizerFiles } from './tokenizer-files.ts';

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
  return makeTokenizerFiles(SYLLABLES, texts, size, maxLength);
}
