/**
 * What the starter is trained on by `longhaul sft`: example `n` is a function of the tokenizer, the kind and `n` only.
 */

import type { TokenSequence } from '../../trainer/model/token-batch.ts';
import type { Tokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { type Demonstration, demonstrate } from '../../tasks/swe-mini/demonstrations.ts';
import type { Chat } from '../sft/chat-records.ts';
import { chatSequences } from '../sft/chat-sequences.ts';
import { drill, type DrillAlphabet, drillAlphabet } from './drills.ts';

/** `clean` demonstrations always repair the bug; `mixed` ones with the shares of `MIX`. */
export const SEQUENCE_KINDS = ['drills', 'clean', 'mixed'] as const;
export type SequenceKind = (typeof SEQUENCE_KINDS)[number];

/** The first training task of each kind: far from each other, and from the tasks of reinforcement learning. */
const FIRST_TASK: Readonly<Record<'clean' | 'mixed', number>> = { clean: 1_000_000, mixed: 100_000_000 };

/** The tokenizer lacks a token that a drill needs. */
export class MissingToken extends Error {
  override readonly name = 'MissingToken';
  readonly token: string;

  constructor(token: string) {
    super(`the tokenizer has no single token for ${JSON.stringify(token)}`);
    this.token = token;
  }
}

function singleToken(tokenizer: Tokenizer, token: string): number {
  const [id, ...rest] = tokenizer.encode(token);
  if (id === undefined || rest.length > 0) throw new MissingToken(token);
  return id;
}

/** A demonstration as a chat: the assistant's turns are trained, except those that slip. */
function chatOf({ messages, slips }: Demonstration): Chat {
  const turns = messages.map((message, i) => ({
    message,
    trained: message.role === 'assistant' && !slips.includes(i),
  }));
  return { turns, tools: [] };
}

/** Errors: `MissingToken`. */
export function sequenceSource(tokenizer: Tokenizer): (kind: SequenceKind, n: number) => TokenSequence[] {
  const alphabet: DrillAlphabet = drillAlphabet((token) => singleToken(tokenizer, token));
  return (kind, n) =>
    kind === 'drills'
      ? [drill(n, alphabet)]
      : chatSequences(tokenizer, chatOf(demonstrate(`swe-mini-train-${FIRST_TASK[kind] + n}`, kind)));
}
