/**
 * Encodes messages as token ids, one turn at a time. Sampled ids are never encoded again; a turn only appends ids. If a
 * chat template rewrites earlier messages, the result is `undefined`, and the caller starts a new training sequence.
 */

import type { Message, ToolSchema } from '../protocol/message.ts';

/** The part of a tokenizer and its chat template that rendering needs. */
export interface ChatTokenizer {
  /** Token ids of `text`. Special tokens are recognised; none are added. */
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

/** Replaces the sampled turn, whose text must not affect the result. Every template prints this one unchanged. */
const PLACEHOLDER: Message = { role: 'assistant', content: 'x' };

/** Ids of the first prompt, with the generation prompt. */
export function renderPrompt(
  tokenizer: ChatTokenizer,
  messages: readonly Message[],
  tools: readonly ToolSchema[],
): number[] {
  return tokenizer.encode(tokenizer.renderChat(messages, tools, { addGenerationPrompt: true }));
}

/**
 * The ids that append `added` after a sampled assistant turn (which ends with the end-of-turn token), so that the next
 * turn can be sampled. `undefined` if the template is not prefix-stable there.
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

/** Replaces the sampled turn where only what follows it is read. No template changes it. */
const MARK = 'SAMPLED-TURN-8c1f';

/**
 * The ids that append `added` after a sampled assistant turn, whatever the template makes of earlier turns: the policy
 * keeps its reasoning. `undefined` if the template does not print the turn.
 */
export function renderAfterTurn(
  tokenizer: ChatTokenizer,
  first: readonly Message[],
  added: readonly Message[],
  tools: readonly ToolSchema[],
  options: { readonly addGenerationPrompt: boolean } = { addGenerationPrompt: true },
): number[] | undefined {
  const messages: Message[] = [...first, { role: 'assistant', content: MARK }, ...added];
  const text = tokenizer.renderChat(messages, tools, options);
  const at = text.indexOf(MARK);
  const end = at < 0 ? -1 : text.indexOf(tokenizer.endOfTurn, at + MARK.length);
  return end < 0 ? undefined : tokenizer.encode(text.slice(end + tokenizer.endOfTurn.length));
}
