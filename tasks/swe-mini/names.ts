/**
 * Identifiers of two different syllables. A hash assigns each pair of syllables to one split, so a held-out task never
 * shares an identifier with training. Every syllable still occurs in training, at both positions.
 */

import { createHash } from 'node:crypto';

import type { Random } from '../random.ts';

/** No name of a function or file occurs in both. */
export type Split = 'train' | 'held-out';

/** A consonant and a vowel. Each is one token of the starter policy. */
export const SYLLABLES: readonly string[] = [
  'ba',
  'be',
  'bi',
  'bo',
  'da',
  'di',
  'du',
  'fa',
  'fe',
  'fo',
  'ga',
  'gi',
  'gu',
  'ka',
  'ke',
  'ki',
  'ko',
  'la',
  'le',
  'lo',
  'lu',
  'ma',
  'me',
  'mi',
  'mu',
  'na',
  'ne',
  'ni',
  'no',
  'pa',
  'pe',
  'pu',
  'ra',
  're',
  'ri',
  'ru',
  'sa',
  'so',
  'su',
  'ta',
  'ti',
  'to',
  'va',
  've',
  'vi',
  'za',
  'zo',
  'zu',
];

/** Words that have a meaning in Python or in English. */
const RESERVED: ReadonlySet<string> = new Set([
  'none',
  'self',
  'give',
  'same',
  'take',
  'more',
  'time',
  'note',
  'sale',
  'fine',
]);

/** Assigns one pair in four to `held-out`. */
function hashedSplit(name: string): Split {
  const byte = createHash('sha256').update(`swe-mini name ${name}`).digest()[0] ?? 0;
  return byte < 64 ? 'held-out' : 'train';
}

/** Cached, since a demonstration looks up hundreds of pairs. */
const SPLITS: ReadonlyMap<string, Split> = new Map(
  SYLLABLES.flatMap((a) => SYLLABLES.map((b) => [a + b, hashedSplit(a + b)] as const)),
);

export const splitOfName = (name: string): Split => SPLITS.get(name) ?? hashedSplit(name);

interface Name {
  readonly text: string;
  /** Indices of its syllables in `SYLLABLES`. */
  readonly first: number;
  readonly second: number;
}

function allNames(split: Split): Name[] {
  return SYLLABLES.flatMap((a, first) => SYLLABLES.map((b, second) => ({ text: a + b, first, second }))).filter(
    ({ text, first, second }) => first !== second && !RESERVED.has(text) && splitOfName(text) === split,
  );
}

const NAMES: Readonly<Record<Split, readonly Name[]>> = { train: allNames('train'), 'held-out': allNames('held-out') };

const HELD_OUT: ReadonlySet<string> = new Set(NAMES['held-out'].map(({ text }) => text));

/** True if held-out tasks may use the name. Training data must not contain such names. */
export const isHeldOutName = (text: string): boolean => HELD_OUT.has(text);

/** Draws names of one split, each at most once per `NameSource`. */
export interface NameSource {
  next(): string;
}

/**
 * While there are enough names, no two names of a source share a syllable, so that one syllable identifies a name and a
 * policy can copy it without guessing. After that, names are only distinct.
 */
export function createNames(split: Split, random: Random): NameSource {
  const used = new Set<Name>();
  let free = NAMES[split];
  return {
    next: () => {
      const name = random.pick(free.length > 0 ? free : NAMES[split].filter((other) => !used.has(other)));
      used.add(name);
      const taken = (syllable: number): boolean => syllable === name.first || syllable === name.second;
      free = free.filter(({ first, second }) => !taken(first) && !taken(second));
      return name.text;
    },
  };
}
