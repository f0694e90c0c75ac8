/** BM25 against its formula, and what must hold for any texts. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Bm25Builder, termsOf } from '../../../agents/retrieval/bm25.ts';

function indexOf(texts: readonly string[], { k1 = 1.2, b = 0.75 } = {}) {
  const builder = new Bm25Builder();
  for (const text of texts) builder.add(text);
  return builder.build({ k1, b });
}

/** The formula, written down again for one text. */
function scoreOf(texts: readonly string[], query: string, index: number, k1: number, b: number): number {
  const lists = texts.map((text) => text.split(' '));
  const mean = lists.reduce((sum, { length }) => sum + length, 0) / lists.length;
  return query.split(' ').reduce((sum, term) => {
    const having = lists.filter((list) => list.includes(term)).length;
    const count = (lists[index] ?? []).filter((one) => one === term).length;
    const idf = Math.log(1 + (texts.length - having + 0.5) / (having + 0.5));
    const length = (lists[index] ?? []).length;
    return sum + (count === 0 ? 0 : (idf * count * (k1 + 1)) / (count + k1 * (1 - b + (b * length) / mean)));
  }, 0);
}

it('scores are those of the formula, best first, the earlier text first of equal ones', () => {
  const word = fc.constantFrom('a1', 'b1', 'c1', 'd1');
  const text = fc.array(word, { minLength: 1, maxLength: 8 }).map((words) => words.join(' '));
  const corpus = fc.array(text, { minLength: 1, maxLength: 12 });
  const one = fc.record({ corpus, query: text, k1: fc.constantFrom(0, 1.2, 2), b: fc.constantFrom(0, 0.75, 1) });
  fc.assert(
    fc.property(one, ({ corpus: texts, query, k1, b }) => {
      const expected = texts
        .map((_, index) => ({ index, score: scoreOf(texts, query, index, k1, b) }))
        .filter(({ score }) => score > 0);
      const found = indexOf(texts, { k1, b }).search(query, texts.length);
      expect(found.map(({ index }) => index).toSorted((x, y) => x - y)).toEqual(expected.map(({ index }) => index));
      for (const { index, score } of found)
        expect(score).toBeCloseTo(expected.find((e) => e.index === index)?.score ?? 0, 9);
      for (const [i, hit] of found.entries()) {
        const before = found[i - 1];
        if (before !== undefined) expect(before.score > hit.score || before.index < hit.index).toBe(true);
      }
    }),
  );
});

it('only the best are returned, and none without a term of the query', () => {
  const index = indexOf(['red apple', 'red car', 'green pear', 'apple apple apple']);
  expect(index.search('apple', 1).map(({ index: i }) => i)).toEqual([3]);
  expect(index.search('apple', 10)).toHaveLength(2);
  expect(index.search('!!! ???', 10)).toEqual([]);
  expect(indexOf([]).search('apple', 3)).toEqual([]);
});

it('terms: any script, no case, characters where there are no spaces, no endless words', () => {
  expect(termsOf('Émile Zola’s x_1, 3.5')).toEqual(['émile', 'zola', 's', 'x', '1', '3', '5']);
  expect(termsOf('东京Tokyo')).toEqual(['东', '京', 'tokyo']);
  expect(termsOf(`${'a'.repeat(65)} b`)).toEqual(['b']);
});
