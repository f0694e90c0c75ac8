/**
 * WebArena's comparisons of texts and addresses, exactly as its evaluators do them in Python: what is stripped, what is
 * a token, and how an address is taken apart.
 */

/** Python's `str.strip`: its blanks are not JavaScript's. */
const BLANK = '[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]';
const BLANKS_AROUND = new RegExp(`^${BLANK}+`, 'u');

function stripped(text: string): string {
  const start = text.replace(BLANKS_AROUND, '');
  let end = start.length;
  const one = new RegExp(`^${BLANK}$`, 'u');
  while (end > 0 && one.test(start.charAt(end - 1))) end -= 1;
  return start.slice(0, end);
}

/** Without blanks around it, without one pair of quotes, in lower case. */
export function cleanAnswer(answer: string): string {
  const text = stripped(answer);
  const quoted = ["'", '"'].some((quote) => text.startsWith(quote) && text.endsWith(quote));
  return (quoted ? text.slice(1, -1) : text).toLowerCase();
}

export const exactMatch = (ref: string, pred: string): boolean => cleanAnswer(pred) === cleanAnswer(ref);

/** The Penn Treebank's rules that decide where a token of one character stands alone. */
const RULES: ReadonlyArray<readonly [RegExp, string]> = [
  [/[«“‘„]|`+/gu, ' $& '],
  [/^"/u, ' `` '],
  [/([ ([{<])("|'{2})/gu, '$1 `` '],
  [/'(?!re|ve|ll|m|t|s|d|n)(?=[\p{L}\p{N}_](?![\p{L}\p{N}_]))/gu, "' "],
  [/([:,])([^\d])/gu, ' $1 $2'],
  [/([:,])$/u, ' $1 '],
  [/\.{2,}/gu, ' $& '],
  [/[;@#$%&]/gu, ' $& '],
  [/[?!]/gu, ' $& '],
  [/([^'])' /gu, "$1 ' "],
  [/[*]/gu, ' $& '],
  [/[\][(){}<>]/gu, ' $& '],
  [/--/gu, ' -- '],
  [/[»”’]/gu, ' $& '],
  [/''/gu, " '' "],
  [/"/gu, " '' "],
  [/$/u, ' '],
  [/([^' ])('s|'m|'d|') /gu, '$1 $2 '],
  [/([^' ])('ll|'re|'ve|n't) /gu, '$1 $2 '],
];

const CLOSING = new Set(`])}>"'»”’ \t\n\r\f\v`);

/** A full stop at the end of the text stands alone, also before closing marks. By hand: a rule would be quadratic. */
function withFinalStop(text: string): string {
  let end = text.length;
  while (end > 0 && CLOSING.has(text.charAt(end - 1))) end -= 1;
  const isStop = end > 1 && text.charAt(end - 1) === '.' && text.charAt(end - 2) !== '.';
  return isStop ? `${text.slice(0, end - 1)} . ${text.slice(end)}` : text;
}

/** Words as NLTK's `word_tokenize` finds them. The end of a sentence is seen at the end of the text alone. */
export function tokensOf(text: string): string[] {
  const spaced = RULES.reduce((given, [rule, by]) => given.replace(rule, by), withFinalStop(text));
  return ` ${spaced} `.split(/\s+/u).filter((token) => token !== '');
}

/** `tokenize`: a reference of one character must be a token, so that `0` is not found in `10`. */
export function mustInclude(ref: string, pred: string, tokenize: boolean): boolean {
  const [wanted, given] = [cleanAnswer(ref), cleanAnswer(pred)];
  if (tokenize && Array.from(wanted).length === 1 && tokensOf(wanted).length === 1)
    return tokensOf(given).includes(wanted);
  return given.includes(wanted);
}

const withoutSlashes = (text: string): string => {
  let end = text.length;
  while (end > 0 && text.charAt(end - 1) === '/') end -= 1;
  return text.slice(0, end);
};

interface Address {
  readonly base: string;
  readonly query: ReadonlyMap<string, readonly string[]>;
}

/** As Python's `urlparse` and `parse_qs`: host and path, and the values of each key that is not empty. */
function addressOf(url: string): Address {
  const [, , host = '', path = '', query = ''] =
    /^([a-z][a-z\d+.-]*:)?(?:\/\/([^/?#]*))?([^?#]*)(?:\?([^#]*))?/iu.exec(url) ?? [];
  const last = path.lastIndexOf('/');
  const parameters = path.indexOf(';', Math.max(0, last));
  const values = new Map<string, string[]>();
  for (const [key, value] of new URLSearchParams(query))
    if (value !== '') values.set(key, [...(values.get(key) ?? []), value]);
  return { base: withoutSlashes(host + (parameters < 0 ? path : path.slice(0, parameters))), query: values };
}

/**
 * `reference`: addresses with ` |OR| ` between them. One must be in the page's, with one value of each of their keys.
 */
export function urlMatches(reference: string, url: string): boolean {
  const refs = reference.split(' |OR| ').map((one) => addressOf(withoutSlashes(one)));
  const page = addressOf(withoutSlashes(url));
  if (!refs.some(({ base }) => page.base.includes(base))) return false;
  const wanted = new Map<string, Set<string>>();
  for (const { query } of refs)
    for (const [key, values] of query) wanted.set(key, new Set([...(wanted.get(key) ?? []), ...values]));
  return [...wanted].every(([key, values]) => (page.query.get(key) ?? []).some((value) => values.has(value)));
}
