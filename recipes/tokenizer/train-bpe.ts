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

function merge(symbols: readonly string[], left: string, right: string): string[] {
  const out: string[] = [];
  for (let i = 0; i < symbols.length; i += 1) {
    const joins = symbols[i] === left && symbols[i + 1] === right;
    out.push(joins ? left + right : (symbols[i] ?? ''));
    if (joins) i += 1;
  }
  return out;
}

/**
 * A pair with the count that it had when it was added. The byte alphabet has no space, so a space parts the symbols.
 */
interface Candidate {
  readonly pair: string;
  readonly count: number;
}

const isBefore = (a: Candidate, b: Candidate): boolean => a.count > b.count || (a.count === b.count && a.pair < b.pair);

/** A binary heap: the most frequent pair first. */
class Candidates {
  readonly #heap: Candidate[] = [];

  push(added: Candidate): void {
    const heap = this.#heap;
    let at = heap.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || !isBefore(added, above)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = added;
  }

  pop(): Candidate | undefined {
    const [first] = this.#heap;
    const last = this.#heap.pop();
    if (last !== undefined && this.#heap.length > 0) this.#sink(last);
    return first;
  }

  #sink(moved: Candidate): void {
    const heap = this.#heap;
    let at = 0;
    for (;;) {
      let [next, child] = [moved, at];
      for (const i of [2 * at + 1, 2 * at + 2]) {
        const below = heap[i];
        if (below !== undefined && isBefore(below, next)) [next, child] = [below, i];
      }
      heap[at] = next;
      if (child === at) return;
      at = child;
    }
  }
}

/** How often each pair occurs in the words. A merge changes the counts of the words that it changes, and no others. */
class PairCounts {
  readonly #whole: ReadonlySet<string>;
  readonly #counts = new Map<string, number>();
  /** The words in which a pair occurs or once occurred. */
  readonly #wordsOf = new Map<string, Set<Word>>();
  readonly #candidates = new Candidates();

  constructor(words: readonly Word[], whole: ReadonlySet<string>) {
    this.#whole = whole;
    for (const word of words) this.#count(word, 1);
    for (const [pair, count] of this.#counts) this.#candidates.push({ pair, count });
  }

  mostFrequent(minimum: number): readonly [string, string] | undefined {
    for (let best = this.#candidates.pop(); best !== undefined; best = this.#candidates.pop()) {
      const { pair } = best;
      const count = this.#counts.get(pair) ?? 0;
      if (count === best.count) {
        const [left = '', right = ''] = pair.split(' ');
        return count < minimum ? undefined : [left, right];
      }
      // A pair that became rarer waits for its turn. One that became more frequent was added again.
      if (count > 0 && count < best.count) this.#candidates.push({ pair, count });
    }
    return undefined;
  }

  merge([left, right]: readonly [string, string]): void {
    const changed = new Set<string>();
    for (const word of this.#wordsOf.get(`${left} ${right}`) ?? []) {
      this.#count(word, -1);
      word.symbols = merge(word.symbols, left, right);
      for (const pair of this.#count(word, 1)) changed.add(pair);
    }
    for (const pair of changed) this.#candidates.push({ pair, count: this.#counts.get(pair) ?? 0 });
  }

  /** Adds or removes a word's pairs, and returns them. */
  #count(word: Word, sign: 1 | -1): string[] {
    const { symbols, count } = word;
    const pairs: string[] = [];
    for (let i = 0; i + 1 < symbols.length; i += 1) {
      if (this.#whole.has(symbols[i] ?? '') && this.#whole.has(symbols[i + 1] ?? '')) continue;
      const pair = `${symbols[i]} ${symbols[i + 1]}`;
      this.#counts.set(pair, (this.#counts.get(pair) ?? 0) + sign * count);
      if (sign > 0) this.#wordsOf.set(pair, (this.#wordsOf.get(pair) ?? new Set()).add(word));
      pairs.push(pair);
    }
    return pairs;
  }
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
    const counts = new PairCounts(words, whole);
    while (vocabulary.size < vocabularySize) {
      const pair = counts.mostFrequent(minimum);
      if (pair === undefined) return;
      merges.push(pair);
      // Two pairs may form the same token.
      if (!vocabulary.has(pair.join(''))) vocabulary.set(pair.join(''), vocabulary.size);
      counts.merge(pair);
    }
  };
  learn(
    countWords(atoms, (atom) => [atom]),
    1,
  );
  const words = countWords(texts, split);
  for (const [left, right] of merges) for (const word of words) word.symbols = merge(word.symbols, left, right);
  learn(words, minimumCount);
  return { vocabulary, merges };
}
