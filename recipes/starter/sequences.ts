/** Training sequences for `longhaul sft`: sequence `n` is a function of the tokenizer, the kind and `n` only. */

import type { TokenSequence } from '../../trainer/model/token-batch.ts';
import type { Tokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { type Demonstration, demonstrate } from '../../tasks/swe-mini/demonstrations.ts';
import { END, roleToken } from './chat-template.ts';
import { drill, type DrillAlphabet, drillAlphabet } from './drills.ts';

/** `clean` demonstrations always repair the bug; `mixed` ones with the shares of `MIX`. */
export const SEQUENCE_KINDS = ['drills', 'clean', 'mixed'] as const;
export type SequenceKind = (typeof SEQUENCE_KINDS)[number];

/** The first training task of each kind: far from each other, and from the tasks of reinforcement learning. */
const FIRST_TASK: Readonly<Record<'clean' | 'mixed', number>> = { clean: 1_000_000, mixed: 100_000_000 };

/** The tokenizer lacks a token that a drill or a mask needs. */
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

/** 1 for tokens that the assistant samples: after its opening token up to its end token, except in `skipped` turns. */
export function assistantMask(
  tokens: readonly number[],
  opening: number,
  end: number,
  skipped: ReadonlySet<number>,
): number[] {
  let speaking = false;
  let turn = -1;
  return tokens.map((token) => {
    const counts = speaking && !skipped.has(turn) ? 1 : 0;
    if (token === opening) {
      speaking = true;
      turn += 1;
    } else if (token === end) speaking = false;
    return counts;
  });
}

/** The assistant's turns with a slip, counted from 0. */
function slippedTurns({ messages, slips }: Demonstration): Set<number> {
  const turns = messages.flatMap(({ role }, i) => (role === 'assistant' ? [i] : []));
  return new Set(slips.map((i) => turns.indexOf(i)));
}

/** Errors: `MissingToken`. */
export function sequenceSource(tokenizer: Tokenizer): (kind: SequenceKind, n: number) => TokenSequence {
  const opening = singleToken(tokenizer, roleToken('assistant'));
  const end = singleToken(tokenizer, END);
  const alphabet: DrillAlphabet = drillAlphabet((token) => singleToken(tokenizer, token));
  return (kind, n) => {
    if (kind === 'drills') return drill(n, alphabet);
    const demonstration = demonstrate(`swe-mini-train-${FIRST_TASK[kind] + n}`, kind);
    const tokens = tokenizer.encode(tokenizer.renderChat(demonstration.messages, [], { addGenerationPrompt: false }));
    return { tokens, mask: assistantMask(tokens, opening, end, slippedTurns(demonstration)) };
  };
}
