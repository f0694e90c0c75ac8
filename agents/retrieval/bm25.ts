/**
 * BM25 in memory (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009, eq. 3.15). An index never
 * changes after it was built; equal texts in the same order give the same scores and the same order.
 */

export interface Bm25Options {
  /** How fast a term's weight saturates with its number in a text. Usually 1.2. */
  readonly k1: number;
  /** How much long texts count less, from 0 to 1. Usually 0.75. */
  readonly b: number;
}

export interface Bm25Hit {
  /** The text's number, from 0, in the order in which texts were added. */
  readonly index: number;
  readonly score: number;
}

const WORD = /[\p{L}\p{N}\p{M}]+/gu;
/** Writing without spaces: each character is a term. */
const CHARACTER = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;
const CHARACTERS = new RegExp(`(${CHARACTER.source})`, 'u');
/** A longer term is no word: data in base 64 would fill the table of terms. */
const LONGEST_TERM = 64;
/** Different terms of one query that are looked up. */
const MOST_QUERY_TERMS = 256;
const MOST_QUERY_CHARACTERS = 20_000;

/** The terms of a text, in its order, in lower case. Takes time linear in the text. */
export function termsOf(text: string): string[] {
  const lower = text.toLowerCase();
  const words: readonly string[] = lower.match(WORD) ?? [];
  const terms = CHARACTER.test(lower) ? words.flatMap((word) => word.split(CHARACTERS)) : words;
  return terms.filter((term) => term !== '' && term.length <= LONGEST_TERM);
}

/** Numbers in a typed array that grows. */
class Column<Values extends Uint32Array | Uint16Array> {
  #values: Values;
  readonly #make: (length: number) => Values;
  length = 0;

  constructor(make: (length: number) => Values) {
    this.#make = make;
    this.#values = make(1024);
  }

  push(value: number): void {
    if (this.length === this.#values.length) {
      const larger = this.#make(this.length * 2);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.length] = value;
    this.length += 1;
  }

  values(): Values {
    return this.#values.subarray(0, this.length) as Values;
  }
}

/** For each term the texts that have it, as slices of common arrays. */
interface Postings {
  /** Where the texts of a term begin. One entry more than there are terms. */
  readonly starts: Uint32Array;
  readonly texts: Uint32Array;
  readonly counts: Uint16Array;
}

const MOST_COUNT = 65_535;

/** Texts are added one by one; only numbers of them are kept. */
export class Bm25Builder {
  readonly #numbers = new Map<string, number>();
  readonly #lengths = new Column((length) => new Uint32Array(length));
  readonly #terms = new Column((length) => new Uint32Array(length));
  readonly #texts = new Column((length) => new Uint32Array(length));
  readonly #counts = new Column((length) => new Uint16Array(length));

  add(text: string): void {
    const counts = new Map<number, number>();
    const terms = termsOf(text);
    for (const term of terms) {
      let number = this.#numbers.get(term);
      if (number === undefined) {
        number = this.#numbers.size;
        this.#numbers.set(term, number);
      }
      counts.set(number, (counts.get(number) ?? 0) + 1);
    }
    for (const [number, count] of counts) {
      this.#terms.push(number);
      this.#texts.push(this.#lengths.length);
      this.#counts.push(Math.min(count, MOST_COUNT));
    }
    this.#lengths.push(terms.length);
  }

  build(options: Bm25Options): Bm25Index {
    return new Bm25Index(this.#numbers, this.#lengths.values().slice(), this.#sorted(), options);
  }

  /** Sorted by term, and by text within a term: a counting sort. */
  #sorted(): Postings {
    const terms = this.#terms.values();
    const starts = new Uint32Array(this.#numbers.size + 1);
    for (const term of terms) starts[term + 1] = (starts[term + 1] ?? 0) + 1;
    for (let i = 1; i < starts.length; i += 1) starts[i] = (starts[i] ?? 0) + (starts[i - 1] ?? 0);
    const next = starts.slice();
    const [texts, counts] = [new Uint32Array(terms.length), new Uint16Array(terms.length)];
    const [givenTexts, givenCounts] = [this.#texts.values(), this.#counts.values()];
    for (const [i, term] of terms.entries()) {
      const at = next[term] ?? 0;
      texts[at] = givenTexts[i] ?? 0;
      counts[at] = givenCounts[i] ?? 0;
      next[term] = at + 1;
    }
    return { starts, texts, counts };
  }
}

/** True if `one` comes before `other`: the higher score, and of equal ones the earlier text. */
const isBefore = (one: Bm25Hit, other: Bm25Hit): boolean =>
  one.score === other.score ? one.index < other.index : one.score > other.score;

export class Bm25Index {
  readonly #numbers: ReadonlyMap<string, number>;
  readonly #postings: Postings;
  /** `k1 * (1 - b + b * length / mean length)` of each text. */
  readonly #norms: Float64Array;
  readonly #k1: number;

  constructor(numbers: ReadonlyMap<string, number>, lengths: Uint32Array, postings: Postings, options: Bm25Options) {
    const { k1, b } = options;
    const mean = lengths.reduce((sum, length) => sum + length, 0) / Math.max(1, lengths.length);
    this.#numbers = numbers;
    this.#postings = postings;
    this.#norms = Float64Array.from(lengths, (length) => k1 * (1 - b + (b * length) / Math.max(1, mean)));
    this.#k1 = k1;
  }

  get size(): number {
    return this.#norms.length;
  }

  get terms(): number {
    return this.#numbers.size;
  }

  /** The `topk` best texts that have a term of the query, the best first. */
  search(query: string, topk: number): Bm25Hit[] {
    const { starts, texts, counts } = this.#postings;
    const scores = new Float64Array(this.size);
    for (const [term, times] of this.#asked(query)) {
      const [from, to] = [starts[term] ?? 0, starts[term + 1] ?? 0];
      const idf = Math.log(1 + (this.size - (to - from) + 0.5) / (to - from + 0.5));
      const weight = times * idf * (this.#k1 + 1);
      for (let i = from; i < to; i += 1) {
        const text = texts[i] ?? 0;
        const count = counts[i] ?? 0;
        scores[text] = (scores[text] ?? 0) + (weight * count) / (count + (this.#norms[text] ?? 0));
      }
    }
    return best(scores, topk);
  }

  /** The known terms of a query with their number in it. */
  #asked(query: string): Map<number, number> {
    const asked = new Map<number, number>();
    for (const term of termsOf(query.slice(0, MOST_QUERY_CHARACTERS))) {
      const number = this.#numbers.get(term);
      if (number === undefined || (asked.size >= MOST_QUERY_TERMS && !asked.has(number))) continue;
      asked.set(number, (asked.get(number) ?? 0) + 1);
    }
    return asked;
  }
}

/** The highest positive scores, sorted. `topk` is small: each score is compared with the lowest one that is kept. */
function best(scores: Float64Array, topk: number): Bm25Hit[] {
  const kept: Bm25Hit[] = [];
  let least = 0;
  for (let index = 0; index < scores.length; index += 1) {
    const score = scores[index] ?? 0;
    // A later text of an equal score never comes before an earlier one.
    if (score <= least) continue;
    const hit = { index, score };
    const at = kept.findIndex((one) => isBefore(hit, one));
    kept.splice(at < 0 ? kept.length : at, 0, hit);
    if (kept.length > topk) kept.pop();
    if (kept.length === topk) least = kept.at(-1)?.score ?? 0;
  }
  return kept;
}
