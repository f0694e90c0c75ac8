/**
 * SkyRL-Agent's encoding of messages: a first prompt as a whole, and later messages alone, as they follow a fixed short
 * conversation. Ids that were sampled are never encoded again. Nothing is cut at a length that belongs to another text.
 */

import type { Message } from '../../protocol/message.ts';
import { messagesToSkyrl, type OpenAiMessage } from '../codecs/skyrl-messages.ts';
import { type ChatTokenizer, renderAfterTurn } from '../render-conversation.ts';

/** The conversation that later messages follow. */
const BASE: readonly Message[] = [
  { role: 'system', content: 'You are a helpful assistant.' },
  { role: 'user', content: 'I am a user.' },
];

export interface EncodeSettings {
  /** The messages open a conversation. */
  readonly isFirst: boolean;
  /** The ids end with the prompt for the assistant's next turn. */
  readonly addGenerationPrompt: boolean;
}

/** Errors: `ConversionRefused`. */
function asText(messages: readonly OpenAiMessage[]): Message[] {
  return messagesToSkyrl(messages).map(({ role, content }) => ({
    role: role as 'system' | 'user' | 'assistant',
    content: typeof content === 'string' ? content : '',
  }));
}

const startsWith = (ids: readonly number[], prefix: readonly number[]): boolean =>
  prefix.every((id, i) => ids[i] === id);

/** The ids of messages of which the first one is the assistant's. Its generation prompt stands before them. */
function afterPrompt(tokenizer: ChatTokenizer, messages: readonly Message[], addGenerationPrompt: boolean): number[] {
  const idsOf = (all: readonly Message[], withPrompt: boolean) =>
    tokenizer.encode(tokenizer.renderChat(all, [], { addGenerationPrompt: withPrompt }));
  const prompt = idsOf(BASE, true);
  const whole = idsOf([...BASE, ...messages], addGenerationPrompt);
  if (startsWith(whole, prompt)) return whole.slice(prompt.length);
  // The template prints this turn differently once more follows it. The policy wrote it after the prompt as it was.
  const [said, ...rest] = messages;
  const own = tokenizer.encode(`${said?.content ?? ''}${tokenizer.endOfTurn}`);
  return [...own, ...(renderAfterTurn(tokenizer, BASE, rest, [], { addGenerationPrompt }) ?? [])];
}

/**
 * Ids of messages in OpenAI's form. Calls and answers of tools become text. Errors: `ConversionRefused`; `TypeError` if
 * the template prints no turn of the assistant.
 */
export function encodeMessages(
  tokenizer: ChatTokenizer,
  given: readonly OpenAiMessage[],
  { isFirst, addGenerationPrompt }: EncodeSettings,
): number[] {
  const messages = asText(given);
  if (isFirst) return tokenizer.encode(tokenizer.renderChat(messages, [], { addGenerationPrompt }));
  if (messages[0]?.role === 'assistant') return afterPrompt(tokenizer, messages, addGenerationPrompt);
  const ids = renderAfterTurn(tokenizer, BASE, messages, [], { addGenerationPrompt });
  if (ids === undefined) throw new TypeError('the chat template prints no turn of the assistant');
  return ids;
}
