/**
 * A chat as training sequences: the tokens that a policy reads and samples in rollouts. Each turn of the assistant
 * follows the prompt that its template prints, and what it says up to the end of its turn is trained. If the template
 * rewrites earlier messages (it removes old reasoning), the turn begins a sequence of its own.
 */

import type { TokenSequence } from '../../trainer/model/token-batch.ts';
import { templateMessage, templateTool } from '../../trainer/tokenizer/chat-template.ts';
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

/** The text of the chat's first `count` messages. Errors: `ChatTemplateRefused`. */
export function chatRenderer({ template }: Pick<Tokenizer, 'template'>, { turns, tools }: Chat): Renderer {
  const messages = turns.map(raw);
  return (count, addGenerationPrompt) =>
    template.render({
      messages: messages.slice(0, count),
      tools: tools.length === 0 ? null : tools.map(templateTool),
      variables: { add_generation_prompt: addGenerationPrompt },
    });
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

type Encoder = Pick<Tokenizer, 'encode' | 'endOfTurn' | 'template'>;

/** Sequences without a trained token are left out. Errors: `UntrainableTurn`, `ChatTemplateRefused`. */
export function chatSequences(tokenizer: Encoder, chat: Chat): TokenSequence[] {
  const render = chatRenderer(tokenizer, chat);
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
