/**
 * A byte-level BPE trainer (Sennrich et al. 2016, algorithm 1): it merges the most frequent pair until the vocabulary
 * is full. The result depends only on the texts. Of equally frequent pairs, the first in code-unit order is merged.
 */

import { BYTE_ALPHABET, toAlphabet } from '../../trainer/tokenizer/byte-alphabet.ts';

export interface BpeModel {
  /** Token to id: bytes in table order, then one per merge. */
  readonly vocabulary: ReadonlyMap<string, number>;
  readonly merges: ReadonlyArray<readonly [string, string]>;
}

interface Word {
  symbols: string[];
  readonly count: number;
}

function countWords(texts: Iterable<string>, split: (text: string) => Iterable<string>): Word[] {
  const counts = new Map<string, number>();
  for (const text of texts) for (const word of split(text)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].map(([word, count]) => ({ symbols: toAlphabet(word), count }));
}

function mostFrequentPair(
  words: readonly Word[],
  minimum: number,
  whole: ReadonlySet<string>,
): readonly [string, string] | undefined {
  const counts = new Map<string, number>();
  for (const { symbols, count } of words) {
    for (let i = 0; i + 1 < symbols.length; i += 1) {
      if (whole.has(symbols[i] ?? '') && whole.has(symbols[i + 1] ?? '')) continue;
      const pair = `${symbols[i]} ${symbols[i + 1]}`;
      counts.set(pair, (counts.get(pair) ?? 0) + count);
    }
  }
  let best: string | undefined;
  let bestCount = minimum - 1;
  for (const [pair, count] of counts) {
    if (count > bestCount || (count === bestCount && best !== undefined && pair < best))
      [best, bestCount] = [pair, count];
  }
  const [left, right] = best?.split(' ') ?? [];
  return left === undefined || right === undefined ? undefined : [left, right];
}

function merge(symbols: readonly string[], left: string, right: string): string[] {
  const out: string[] = [];
  for (let i = 0; i < symbols.length; i += 1) {
    const joins = symbols[i] === left && symbols[i + 1] === right;
    out.push(joins ? left + right : (symbols[i] ?? ''));
    if (joins) i += 1;
  }
  return out;
}

export interface TrainBpeOptions {
  /**
   * ASCII words that become one token each, whatever the texts contain. Their merges come first, and no two of them
   * merge with each other, so that a word of atoms always has exactly these tokens.
   */
  readonly atoms: readonly string[];
  readonly texts: Iterable<string>;
  /** Splits a text into the words within which merges stay. */
  readonly split: (text: string) => Iterable<string>;
  /** Ids of the model, without added tokens. At least 256. */
  readonly vocabularySize: number;
  /** Rarer pairs are not merged, even if the vocabulary stays smaller. */
  readonly minimumCount: number;
}

export function trainBpe({ atoms, texts, split, vocabularySize, minimumCount }: TrainBpeOptions): BpeModel {
  const vocabulary = new Map(BYTE_ALPHABET.map((symbol, id) => [symbol, id]));
  const merges: Array<readonly [string, string]> = [];
  const whole = new Set(atoms);
  const learn = (words: readonly Word[], minimum: number): void => {
    while (vocabulary.size < vocabularySize) {
      const pair = mostFrequentPair(words, minimum, whole);
      if (pair === undefined) return;
      merges.push(pair);
      vocabulary.set(pair.join(''), vocabulary.size);
      mergeAll(words, pair);
    }
  };
  learn(
    countWords(atoms, (atom) => [atom]),
    1,
  );
  const words = countWords(texts, split);
  for (const pair of merges) mergeAll(words, pair);
  learn(words, minimumCount);
  return { vocabulary, merges };
}

function mergeAll(words: readonly Word[], [left, right]: readonly [string, string]): void {
  for (const word of words) if (word.symbols.includes(left)) word.symbols = merge(word.symbols, left, right);
}
