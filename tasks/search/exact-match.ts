/**
 * Exact match of answers as SQuAD defines it (Rajpurkar et al., 2016): lower case, without punctuation, articles and
 * extra spaces. As SkyRL-Gym's `search` counts it. Takes time linear in the texts.
 */

const PUNCTUATION = /[!-/:-@[-`{-~]/g;
/** Words in the sense of Python's regular expressions, which know all scripts. */
const ARTICLES = /(?<![\p{L}\p{N}_])(?:an?|the)(?![\p{L}\p{N}_])/gu;
/** What Python's `split` takes for white space. */
const SPACES = /[\t-\r\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/g;

export function normalizeAnswer(text: string): string {
  return text.toLowerCase().replaceAll(PUNCTUATION, '').replaceAll(ARTICLES, ' ').replaceAll(SPACES, ' ').trim();
}

/** True if the prediction equals one of the golden answers after both are normalised. */
export function exactMatch(prediction: string, golden: readonly string[]): boolean {
  const said = normalizeAnswer(prediction);
  return golden.some((one) => normalizeAnswer(one) === said);
}

/** True if the normalised prediction contains a golden answer. */
export function containsAnswer(prediction: string, golden: readonly string[]): boolean {
  const said = normalizeAnswer(prediction);
  return golden.some((one) => said.includes(normalizeAnswer(one)));
}

const OPEN = '<answer>';
const CLOSE = '</answer>';

/** The content of the last `<answer>…</answer>`, without outer spaces. `undefined` if there is none. */
export function lastAnswer(text: string): string | undefined {
  let found: string | undefined;
  for (let from = text.indexOf(OPEN); from >= 0;) {
    const end = text.indexOf(CLOSE, from + OPEN.length);
    if (end < 0) break;
    found = text.slice(from + OPEN.length, end).trim();
    from = text.indexOf(OPEN, end + CLOSE.length);
  }
  return found;
}
