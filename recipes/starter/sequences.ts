/** Training sequences for `longhaul sft`: number `n` of a kind is a function of the tokenizer, the kind and `n` alone. */

import type { TokenSequence } from '../../trainer/model/token-batch.ts';
import type { Tokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { type Demonstration, demonstrate } from '../../tasks/swe-mini/demonstrations.ts';
import { END, roleToken } from './chat-template.ts';
import { drill, type DrillAlphabet, drillAlphabet } from './drills.ts';

/** `clean` demonstrations all repair the bug; `mixed` ones do in the shares of `MIX`. */
export const SEQUENCE_KINDS = ['drills', 'clean', 'mixed'] as const;
export type SequenceKind = (typeof SEQUENCE_KINDS)[number];

/** Training tasks that demonstrations of a kind begin at: far from each other, and from those that reinforcement uses. */
const FIRST_TASK: Readonly<Record<'clean' | 'mixed', number>> = { clean: 1_000_000, mixed: 100_000_000 };

/** A token that a drill or a mask needs is not in the tokenizer. */
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

/** What an assistant samples counts: from after its opening token to its end token, but in the turns `skipped` (from 0). */
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

/** Which of the assistant's turns, from 0, slipped. */
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
