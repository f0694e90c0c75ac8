/** Finds the known word that a misspelt one probably means, for messages only. */

/** Number of edits between two words (insertion, deletion, replacement, swap of neighbours), by dynamic programming. */
function distance(a: string, b: string): number {
  const rows = Array.from({ length: a.length + 1 }, (_, i) => [i, ...Array<number>(b.length).fill(0)]);
  const at = (i: number, j: number): number => (i === 0 ? j : (rows[i]?.[j] ?? 0));
  for (let i = 1; i <= a.length; i += 1) {
    for (let j = 1; j <= b.length; j += 1) {
      const isSame = a[i - 1] === b[j - 1];
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const replaced = at(i - 1, j - 1) + (isSame ? 0 : 1);
      const least = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, replaced, isSwapped ? at(i - 2, j - 2) + 1 : replaced);
      (rows[i] as number[])[j] = least;
    }
  }
  return at(a.length, b.length);
}

/** At most a third of the letters may differ (two in a short word). Capitals, `_` and `-` do not count. */
export function closest(word: string, known: Iterable<string>): string | undefined {
  const plain = (text: string): string => text.toLowerCase().replaceAll(/[_-]/g, '');
  const [given, most] = [plain(word.slice(0, 64)), Math.max(2, Math.floor(word.length / 3))];
  const ranked = [...known].map((name) => ({ name, edits: distance(given, plain(name)) }));
  const [best] = ranked.toSorted((x, y) => x.edits - y.edits);
  return best !== undefined && best.edits <= most && best.edits < given.length ? best.name : undefined;
}

/** `; did you mean X?`, or an empty string. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const meant = closest(word, known);
  return meant === undefined ? '' : `; did you mean ${meant}?`;
}
