/**
 * Copying drills: short sequences in which names and numbers recur, so that a fresh policy learns to continue what it
 * has seen (induction heads; Olsson et al. 2022) on sequences a third as long as demonstrations.
 */

import type { TokenSequence } from '../../trainer/model/token-batch.ts';
import type { Random } from '../random.ts';
import { createRandom } from '../random.ts';
import { SYLLABLES } from '../swe-mini/names.ts';

/** Tokens of a drill, about. */
const LENGTH = 48;

export interface DrillAlphabet {
  /** Ids of what names and numbers are made of. */
  readonly parts: readonly number[];
  /** Ids of operators, keywords and punctuation. */
  readonly signs: readonly number[];
}

const OPERATORS = [' + ', ' - ', ' * ', ' % ', ' < ', ' <= ', ' > ', ' >= ', ' == '];
const WORDS = ['return ', 'if ', 'def ', 'list', 'range', 'sum', 'print'];
const PUNCTUATION = ['(', ')', '[', ']', ':', '.', '/', ', ', '"', ' `', '`'];
const SIGNS = [...OPERATORS, ...WORDS, ...PUNCTUATION];

/** `idOf`: the id of a text that is one token. */
export function drillAlphabet(idOf: (token: string) => number): DrillAlphabet {
  return { parts: [...SYLLABLES, ...'0123456789'.split('')].map(idOf), signs: SIGNS.map(idOf) };
}

/** A period of random parts, again and again: all but the first round counts. */
function repeated(random: Random, { parts }: DrillAlphabet): TokenSequence {
  const period = random.integer(4, 10);
  const round = Array.from({ length: period }, () => random.pick(parts));
  const tokens = Array.from({ length: LENGTH }, (_, i) => round[i % period] ?? 0);
  return { tokens, mask: tokens.map((_, i) => (i >= period ? 1 : 0)) };
}

/** Names of two parts, each with a sign of its own after it, in any order: what follows the first part counts where a name comes again. */
function recalled(random: Random, { parts, signs }: DrillAlphabet): TokenSequence {
  const names = Array.from({ length: random.integer(2, 6) }, () => [random.pick(parts), random.pick(parts), random.pick(signs)]);
  const order = [...random.shuffle(names), ...Array.from({ length: Math.floor(LENGTH / 3) - names.length }, () => random.pick(names))];
  return { tokens: order.flat(), mask: order.flatMap((_, i) => (i < names.length ? [0, 0, 0] : [0, 1, 1])) };
}

/** Drill number `n`: a function of the number and the alphabet alone. */
export function drill(n: number, alphabet: DrillAlphabet): TokenSequence {
  const random = createRandom(`starter/drill/${n}`);
  return random.chance(0.5) ? repeated(random, alphabet) : recalled(random, alphabet);
}
