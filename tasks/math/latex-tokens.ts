/**
 * The tokens of an answer in LaTeX or plain text, without what only changes how it looks. The text is read once, and
 * one that is too long has no tokens.
 */

import { asciiDigits } from '../../protocol/python-text.ts';

export type Token =
  | { readonly kind: 'number'; readonly text: string }
  /** A command without its backslash. */
  | { readonly kind: 'command'; readonly text: string }
  | { readonly kind: 'letter'; readonly text: string }
  /** Words: of `\text{…}`, or of several letters in a row that are no product. */
  | { readonly kind: 'words'; readonly text: string }
  | { readonly kind: 'symbol'; readonly text: string };

const LONGEST = 2000;

/** They have no meaning of their own. */
const NO_MEANING = new Set(
  (
    'left right big Big bigl bigr Bigl Bigr bigg Bigg middle displaystyle textstyle limits quad qquad rm bf it ' +
    'hline'
  ).split(' '),
);
const TEXT_COMMANDS = new Set('text textbf textit textrm mbox mathrm mathbf operatorname textnormal'.split(' '));
const WRAPPERS = new Set(['boxed', 'fbox', 'mathbb', 'boldsymbol', 'ensuremath', 'underline']);
/** `from→to from→to …` */
const table = (pairs: string): ReadonlyMap<string, string> =>
  new Map(pairs.split(/\s+/).map((pair) => [pair.slice(0, pair.indexOf('→')), pair.slice(pair.indexOf('→') + 1)]));

const RENAMED = table(
  `dfrac→frac tfrac→frac cfrac→frac sfrac→frac nicefrac→frac dbinom→binom tbinom→binom le→leq leqslant→leq ge→geq geqslant→geq lt→< gt→> ne→neq
   lvert→| rvert→| vert→| mid→| |→| varnothing→emptyset lbrace→{{ rbrace→}} {→{{ }→}} times→* cdot→* ast→* div→/ lparen→(
   rparen→) lbrack→[ rbrack→] %→% arcsin→asin arccos→acos arctan→atan degree→circ land→, and→, langle→( rangle→) colon→:`,
);
const PLAIN = table(
  '−→- –→- ×→* ·→* ÷→/ ≤→leq ≥→geq ≠→neq ∞→infty π→pi √→sqrt °→circ º→circ ˚→circ ∪→cup ∩→cap ∅→emptyset ±→pm ' +
    '∈→in θ→theta',
);
/** Words without a backslash that are what the command of that name is. */
const NAMED = new Set('sqrt sin cos tan cot sec csc ln log exp pi infty infinity theta'.split(' '));
/** After a number they are no product. */
const UNITS = new Set('cm mm km ft in sq kg mg ml mph hr min sec lb lbs oz am pm AM PM st nd rd th deg'.split(' '));
const SYMBOLS = new Set("+-*/^_=<>(){}[]|,;:!&%'".split(''));

/** Where the braces that begin at `open` end; `undefined` if they do not. */
function closing(text: string, open: number): number | undefined {
  let depth = 0;
  for (let at = open; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1;
    else if (text[at] === '{') depth += 1;
    else if (text[at] === '}' && (depth -= 1) === 0) return at;
  }
  return undefined;
}

const symbolOrCommand = (text: string): Token =>
  /^[a-z]{2,}$/i.test(text) ? { kind: 'command', text } : { kind: 'symbol', text };

/** A command, and what of the text belongs to it. `after`: the position after the token. */
function command(text: string, at: number): { readonly after: number; readonly tokens: readonly Token[] } | undefined {
  const [whole = '', name = ''] = /^\\([A-Za-z]+|.)/s.exec(text.slice(at, at + 40)) ?? [];
  const after = at + whole.length;
  if (name === '\\') return { after, tokens: [{ kind: 'symbol', text: '\\\\' }] };
  if (/^[,;:! ()[\]$]$/.test(name) || NO_MEANING.has(name)) {
    // `\left.` and `\right.` are no brackets.
    const isEmpty = (name === 'left' || name === 'right') && text[after] === '.';
    return { after: after + Number(isEmpty), tokens: [] };
  }
  const open = /^\s{0,3}\{/.exec(text.slice(after, after + 4));
  if (open !== null && (TEXT_COMMANDS.has(name) || name === 'begin' || name === 'end')) {
    const end = closing(text, after + open[0].length - 1);
    if (end === undefined) return undefined;
    const words = text.slice(after + open[0].length, end).trim();
    if (name === 'begin' || name === 'end')
      return { after: end + 1, tokens: [{ kind: 'command', text: `${name} ${words}` }] };
    // `\mathbf{5}` is 5.
    if (/^[-+−]?[\d.]/.test(words)) return { after, tokens: [] };
    return { after: end + 1, tokens: words === '' ? [] : [{ kind: 'words', text: words }] };
  }
  if (WRAPPERS.has(name) || TEXT_COMMANDS.has(name)) return { after, tokens: [] };
  return { after, tokens: [symbolOrCommand(RENAMED.get(name) ?? name)] };
}

/** Letters in a row are a product of variables, unless they are a function, or too many. */
function letters(text: string, last: Token | undefined): readonly Token[] {
  if (last?.kind === 'number' && UNITS.has(text)) return [{ kind: 'words', text }];
  if (NAMED.has(text)) return [{ kind: 'command', text: text === 'infinity' ? 'infty' : text }];
  if (text.length > 3) return [{ kind: 'words', text }];
  return text.split('').map((letter) => ({ kind: 'letter', text: letter }));
}

const REPEATING = /(?<!\d)(\d{0,50})\.(\d{0,50})\\overline\s?\{(\d{1,50})\}/g;

/** The fraction that a decimal with a period is. */
function repeating(whole: string, part: string, period: string): string {
  const top = BigInt(`${whole}${part}${period}`) - BigInt(`${whole}${part}`);
  return `(${top}/${'9'.repeat(period.length)}${'0'.repeat(part.length)})`;
}

/** What stands for several characters of plain LaTeX. */
const FRACTIONS = table(
  `½→\\frac{1}{2} ⅓→\\frac{1}{3} ⅔→\\frac{2}{3} ¼→\\frac{1}{4} ¾→\\frac{3}{4} ⅕→\\frac{1}{5} ⅖→\\frac{2}{5} ⅗→\\frac{3}{5}
   ⅘→\\frac{4}{5} ⅙→\\frac{1}{6} ⅚→\\frac{5}{6} ⅛→\\frac{1}{8} ⅜→\\frac{3}{8} ⅝→\\frac{5}{8} ⅞→\\frac{7}{8}`,
);
const RAISED = '⁰¹²³⁴⁵⁶⁷⁸⁹⁻';
/** In plain characters: forms of full width, digits of other scripts, raised digits, fractions of one character. */
const plainCharacters = (text: string): string =>
  asciiDigits(text)
    .replaceAll(/[！-～]/g, (char) => String.fromCharCode(char.charCodeAt(0) - 0xfee0))
    .replaceAll(
      new RegExp(`[${RAISED}]{1,20}`, 'g'),
      (run) => `^{${Array.from(run, (char) => '0123456789-'[RAISED.indexOf(char)]).join('')}}`,
    )
    .replaceAll(/[¼-¾⅓-⅞]/g, (char) => FRACTIONS.get(char) ?? char);

const NUMBER = /^(?:\d+(?:\.\d+)?|\.\d+|\d+\.(?!\w))/;
const GROUPED = /^\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?/;

/**
 * `grouped`: `1,234` is one number. Commas that are written `,\!` or `{,}` group in any case. `undefined`: the text is
 * too long, or its braces do not end.
 */
export function latexTokens(given: string, grouped: boolean): readonly Token[] | undefined {
  if (given.length > LONGEST) return undefined;
  const text = (/^[\0-\x7f]*$/.test(given) ? given : plainCharacters(given))
    .replaceAll(REPEATING, (_, whole: string, part: string, period: string) => repeating(whole, part, period))
    .replaceAll(/(\d),\\!\s?(?=\d{3})|(\d)\{,\}(?=\d{3})/g, '$1$2')
    .replaceAll(/\\(?:text)?color\s?\{[^{}]{0,40}\}/g, '')
    .replaceAll(/\{([^{}]{1,100})\\over(?![A-Za-z])([^{}]{1,100})\}/g, String.raw`\frac{$1}{$2}`)
    // `1.2e3`, `5^{th}` and `x**2`.
    .replaceAll(/(?<![\w.\\])(\d{1,50}(?:\.\d{1,50})?)[eE]([-+]?\d{1,3})(?![\w.^])/g, '($1*10^{$2})')
    .replaceAll(/(\d)\^\s?\{?\\?(?:text|mathrm)?\{?(?:st|nd|rd|th)\}{0,2}$/g, '$1')
    .replaceAll('**', '^')
    .replaceAll('$', ' ')
    .replaceAll('~', ' ')
    .trim()
    .replace(/^(?:=|\\approx(?![A-Za-z]))\s*/, '')
    .replace(/(?:[.,;]|\\\\)$/, '')
    // `3 1/2` is a mixed number.
    .replace(/^([-−]?)(\d{1,9}) (\d{1,9})\/(\d{1,9})$/, String.raw`$1$2\frac{$3}{$4}`);
  const tokens: Token[] = [];
  for (let at = 0; at < text.length;) {
    const rest = text.slice(at, at + 400);
    const char = rest[0] ?? '';
    const number = (grouped ? GROUPED.exec(rest) : null) ?? NUMBER.exec(rest);
    if (number !== null) {
      tokens.push({ kind: 'number', text: number[0].replaceAll(',', '').replace(/\.$/, '') });
      at += number[0].length;
    } else if (char === '\\') {
      const found = command(text, at);
      if (found === undefined) return undefined;
      tokens.push(...found.tokens);
      at = found.after;
    } else if (/[A-Za-z]/.test(char)) {
      const [run = char] = /^[A-Za-z]+/.exec(rest) ?? [];
      tokens.push(...letters(run, tokens.at(-1)));
      at += run.length;
    } else {
      const plain = PLAIN.get(char) ?? char;
      if (SYMBOLS.has(plain) || plain.length > 1) tokens.push(symbolOrCommand(plain));
      else if (!/\s/.test(char)) tokens.push({ kind: 'words', text: char });
      at += 1;
    }
  }
  return tokens;
}
