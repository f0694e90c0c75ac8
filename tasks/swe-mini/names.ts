/**
 * Identifiers of two different syllables. Each pair of syllables belongs to one split by a hash rule, so a held-out task never
 * shares an identifier with training, while every syllable is met in training in both places.
 */

import { createHash } from 'node:crypto';

import type { Random } from '../random.ts';
import type { Split } from '../task.ts';

/** Consonant and vowel; each is one token of the starter policy. */
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

/** Words that Python or a reader would take for something else. */
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

/** One pair in four is held out. */
function hashedSplit(name: string): Split {
  const byte = createHash('sha256').update(`swe-mini name ${name}`).digest()[0] ?? 0;
  return byte < 64 ? 'held-out' : 'train';
}

/** A demonstration asks for hundreds of pairs: each is hashed once. */
const SPLITS: ReadonlyMap<string, Split> = new Map(
  SYLLABLES.flatMap((a) => SYLLABLES.map((b) => [a + b, hashedSplit(a + b)] as const)),
);

export const splitOfName = (name: string): Split => SPLITS.get(name) ?? hashedSplit(name);

interface Name {
  readonly text: string;
  /** Of its syllables, in `SYLLABLES`. */
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

/** True for a name that held-out tasks may use: nothing that trains a policy may hold it. */
export const isHeldOutName = (text: string): boolean => HELD_OUT.has(text);

/** Draws names of one split, each at most once per `NameSource`. */
export interface NameSource {
  next(): string;
}

/**
 * No two names of a source share a syllable while there are enough of them: then one syllable tells which name is
 * meant, and copying a name takes no guess. Where they run out, names are only distinct.
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
