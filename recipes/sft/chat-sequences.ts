/**
 * A chat as training sequences: the tokens that a policy reads and samples in rollouts. Each turn of the assistant
 * follows the prompt that its template prints, and what it says up to the end of its turn is trained. If the template
 * rewrites earlier messages (it removes old reasoning), the turn begins a sequence of its own. A template that knows no
 * tools gets calls as text and a preamble, as in rollouts.
 */

import { type ConversationForm, conversationForm } from '../../agents/conversation-form.ts';
import type { Message } from '../../protocol/message.ts';
import type { TokenSequence } from '../../trainer/model/token-batch.ts';
import { type TemplateInput, templateMessage, templateTool } from '../../trainer/tokenizer/chat-template.ts';
import type { Tokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import type { Chat, ChatTurn } from './chat-records.ts';

/** The template prints a turn of the assistant differently from the prompt before it, so it has no tokens to train. */
export class UntrainableTurn extends Error {
  override readonly name = 'UntrainableTurn';
  /** The message's index. */
  readonly index: number;

  constructor(index: number) {
    super(`the chat template does not print message ${index} after its own generation prompt`);
    this.index = index;
  }
}

type Renderer = (count: number, addGenerationPrompt: boolean) => string;

function raw({ message, reasoning }: ChatTurn): Record<string, unknown> {
  return { ...templateMessage(message), ...(reasoning !== undefined && { reasoning_content: reasoning }) };
}

/** A message whose reasoning is part of its text. */
function withThought({ message, reasoning }: ChatTurn): Message {
  if (reasoning === undefined) return message;
  return { ...message, content: `<think>\n${reasoning}\n</think>\n\n${message.content}` };
}

/** The text of the chat's first `count` messages. `form`: absent, the template's own. Errors: `ChatTemplateRefused`. */
export function chatRenderer(
  { template }: Pick<Tokenizer, 'template'>,
  { turns, tools }: Chat,
  form?: ConversationForm,
): Renderer {
  const rendered = (messages: TemplateInput['messages'], shown: Chat['tools'], addGenerationPrompt: boolean) =>
    template.render({
      messages,
      tools: shown.length === 0 ? null : shown.map(templateTool),
      variables: { add_generation_prompt: addGenerationPrompt },
    });
  if (form === undefined || form.isNative) {
    const messages = turns.map(raw);
    return (count, addGenerationPrompt) => rendered(messages.slice(0, count), tools, addGenerationPrompt);
  }
  const messages = turns.map(withThought);
  return (count, addGenerationPrompt) => {
    const whole = form.whole(messages.slice(0, count), tools);
    return rendered(whole.messages.map(templateMessage), whole.tools, addGenerationPrompt);
  };
}

/** One sequence as it grows. */
class Growing {
  text = '';
  readonly tokens: number[] = [];
  readonly mask: number[] = [];

  add(text: string, ids: readonly number[], trained: boolean): void {
    this.text += text;
    for (const id of ids) {
      this.tokens.push(id);
      this.mask.push(trained ? 1 : 0);
    }
  }
}

/** What the policy samples: the text up to the token that ends its turn. */
function sampledPart(completion: string, endOfTurn: string): string {
  const end = endOfTurn === '' ? -1 : completion.lastIndexOf(endOfTurn);
  return end < 0 ? completion : completion.slice(0, end + endOfTurn.length);
}

type Encoder = Pick<Tokenizer, 'encode' | 'endOfTurn' | 'template' | 'renderChat' | 'chatTemplate'>;

/** Sequences without a trained token are left out. Errors: `UntrainableTurn`, `ChatTemplateRefused`. */
export function chatSequences(tokenizer: Encoder, chat: Chat): TokenSequence[] {
  const hasTools = chat.tools.length > 0 || chat.turns.some(({ message }) => message.role === 'tool');
  const render = chatRenderer(tokenizer, chat, hasTools ? conversationForm(tokenizer, {}) : undefined);
  const sequences: Growing[] = [];
  for (const [index, { message, trained }] of chat.turns.entries()) {
    if (message.role !== 'assistant') continue;
    const prompt = render(index, true);
    const whole = render(index + 1, false);
    if (!whole.startsWith(prompt)) throw new UntrainableTurn(index);
    const open = sequences.at(-1);
    const sequence = open !== undefined && prompt.startsWith(open.text) ? open : new Growing();
    if (sequence !== open) sequences.push(sequence);
    const context = prompt.slice(sequence.text.length);
    sequence.add(context, tokenizer.encode(context), false);
    const said = sampledPart(whole.slice(prompt.length), tokenizer.endOfTurn);
    sequence.add(said, tokenizer.encode(said), trained);
  }
  return sequences.filter(({ mask }) => mask.includes(1)).map(({ tokens, mask }) => ({ tokens, mask }));
}
