/**
 * Copying drills: short sequences with repeated names and numbers. From them a new policy learns to copy what it has
 * seen (induction heads; Olsson et al. 2022), on sequences a third as long as demonstrations.
 */

import type { TokenSequence } from '../../trainer/model/token-batch.ts';
import { type Random, createRandom } from '../../tasks/random.ts';
import { isHeldOutName, SYLLABLES } from '../../tasks/swe-mini/names.ts';

/** Approximate number of tokens of a drill. */
const LENGTH = 48;

interface Token {
  readonly id: number;
  readonly text: string;
}

export interface DrillAlphabet {
  /** The parts of names. */
  readonly syllables: readonly Token[];
  readonly digits: readonly Token[];
  /** Operators, keywords and punctuation. */
  readonly signs: readonly Token[];
}

const OPERATORS = [' + ', ' - ', ' * ', ' % ', ' < ', ' <= ', ' > ', ' >= ', ' == '];
const WORDS = ['return ', 'if ', 'def ', 'list', 'range', 'sum', 'print'];
const PUNCTUATION = ['(', ')', '[', ']', ':', '.', '/', ', ', '"', ' `', '`'];
const SIGNS = [...OPERATORS, ...WORDS, ...PUNCTUATION];

/** `idOf`: returns the id of a text that is one token. */
export function drillAlphabet(idOf: (token: string) => number): DrillAlphabet {
  const tokens = (texts: readonly string[]): Token[] => texts.map((text) => ({ id: idOf(text), text }));
  return { syllables: tokens(SYLLABLES), digits: tokens('0123456789'.split('')), signs: tokens(SIGNS) };
}

/** A random one of `parts` that does not form a held-out name with the part before it. */
function next(random: Random, parts: readonly Token[], before: Token | undefined): Token {
  return random.pick(parts.filter(({ text }) => before === undefined || !isHeldOutName(before.text + text)));
}

/** A random period of syllables and digits, repeated. All tokens after the first period are trained. */
function repeated(random: Random, { syllables, digits }: DrillAlphabet): TokenSequence {
  const period = random.integer(4, 10);
  const parts = [...syllables, ...digits];
  const round: Token[] = [];
  while (round.length < period - 1) round.push(next(random, parts, round.at(-1)));
  // The last part is a digit, so that no name is formed where one period ends and the next starts.
  round.push(random.pick(digits));
  const tokens = Array.from({ length: LENGTH }, (_, i) => round[i % period]?.id ?? 0);
  return { tokens, mask: tokens.map((_, i) => (i >= period ? 1 : 0)) };
}

/** A name, a sign, and in half of the cases a number. The first syllable of the name determines the rest. */
function entry(random: Random, { syllables, digits, signs }: DrillAlphabet): Token[] {
  const first = random.pick(syllables);
  const number = Array.from({ length: random.integer(-1, 2) }, () => random.pick(digits));
  return [first, next(random, syllables, first), random.pick(signs), ...number];
}

/**
 * All entries once, then repeated in random order. In the repetitions all tokens except first syllables are trained.
 * There are few signs, so a number can only be predicted from the name before its sign, as in an edit that repeats a
 * line of code.
 */
function recalled(random: Random, alphabet: DrillAlphabet): TokenSequence {
  const entries = Array.from({ length: random.integer(2, 6) }, () => entry(random, alphabet));
  const order = random.shuffle(entries);
  while (order.flat().length < LENGTH) order.push(random.pick(entries));
  return {
    tokens: order.flat().map(({ id }) => id),
    mask: order.flatMap((each, i) => each.map((_, at) => (i >= entries.length && at > 0 ? 1 : 0))),
  };
}

/** Drill number `n`: a function of the number and the alphabet only. It contains no held-out name. */
export function drill(n: number, alphabet: DrillAlphabet): TokenSequence {
  const random = createRandom(`starter/drill/${n}`);
  return random.chance(0.4) ? repeated(random, alphabet) : recalled(random, alphabet);
}
