/**
 * From messages to token ids, one turn at a time: what was sampled is never re-encoded, a turn only appends ids. Where
 * a chat template rewrites what came before, the caller is told, and a new training sequence starts.
 */

import type { Message, ToolSchema } from '../protocol/message.ts';

/** What rendering needs of a tokenizer and its chat template. */
export interface ChatTokenizer {
  /** Token ids of `text`, special tokens recognised, none added. */
  encode(text: string): number[];
  decode(ids: readonly number[], options?: { readonly skipSpecialTokens?: boolean }): string;
  renderChat(
    messages: readonly Message[],
    tools: readonly ToolSchema[],
    options: { readonly addGenerationPrompt: boolean },
  ): string;
  /** Text of the token that ends an assistant turn. */
  readonly endOfTurn: string;
}

/** Stands for the sampled turn, whose own text must not matter: any template prints it as it is. */
const PLACEHOLDER: Message = { role: 'assistant', content: 'x' };

/** Ids of the first prompt, generation prompt included. */
export function renderPrompt(
  tokenizer: ChatTokenizer,
  messages: readonly Message[],
  tools: readonly ToolSchema[],
): number[] {
  return tokenizer.encode(tokenizer.renderChat(messages, tools, { addGenerationPrompt: true }));
}

/**
 * Ids to append after a sampled assistant turn (which ends with the end-of-turn token) so that `added` follows it and
 * the next turn can be sampled; `undefined` when the template is not prefix-stable there.
 */
export function renderContinuation(
  tokenizer: ChatTokenizer,
  first: readonly Message[],
  added: readonly Message[],
  tools: readonly ToolSchema[],
): number[] | undefined {
  const base = [...first, PLACEHOLDER];
  const before = tokenizer.renderChat(base, tools, { addGenerationPrompt: false });
  const after = tokenizer.renderChat([...base, ...added], tools, { addGenerationPrompt: true });
  const end = before.lastIndexOf(tokenizer.endOfTurn);
  if (end < 0 || !after.startsWith(before)) return undefined;
  return tokenizer.encode(after.slice(end + tokenizer.endOfTurn.length));
}
