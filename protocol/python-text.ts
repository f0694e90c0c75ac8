/**
 * White space, digits, and the printed form of values as Python 3 has them, for graders, templates and calls that must
 * say what Python's say. JavaScript's `\s` and `trim` also take U+FEFF, and leave out U+001C to U+001F and U+0085.
 */

/** For a class of a regular expression: what `str.isspace` accepts. */
export const PYTHON_SPACE = String.raw`\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000`;

const IS_SPACE = new RegExp(`[${PYTHON_SPACE}]`);
const SPACES = new RegExp(`[${PYTHON_SPACE}]+`);

/** Python's `text.strip()`; with one side `text.lstrip()` or `text.rstrip()`. */
export function stripped(text: string, sides: 'both' | 'left' | 'right' = 'both'): string {
  let [from, to] = [0, text.length];
  while (sides !== 'right' && from < to && IS_SPACE.test(text.charAt(from))) from += 1;
  while (sides !== 'left' && from < to && IS_SPACE.test(text.charAt(to - 1))) to -= 1;
  return text.slice(from, to);
}

/** Python's `text.split()`: without empty parts. */
export const wordsOf = (text: string): string[] => text.split(SPACES).filter((word) => word !== '');

/** Digits that are no decimal ones: superscripts, circled and others (Unicode's Numeric_Type=Digit). */
const OTHER_DIGITS = String.raw`\xb2\xb3\xb9\u1369-\u1371\u19da\u2070\u2074-\u2079\u2080-\u2089\u2460-\u2468\u2474-\u247c\u2488-\u2490\u24ea\u24f5-\u24fd\u24ff\u2776-\u277e\u2780-\u2788\u278a-\u2792\u{10a40}-\u{10a43}\u{10e60}-\u{10e68}\u{11052}-\u{1105a}\u{1f100}-\u{1f10a}`;
const DIGITS = new RegExp(String.raw`^[\p{Nd}${OTHER_DIGITS}]+$`, 'u');

/** Python's `text.isdigit()`. */
export const isDigits = (text: string): boolean => DIGITS.test(text);

/** Decimal digits of every script as 0 to 9, as Python's `int` reads them. Each script has a run from 0 to 9. */
export const asciiDigits = (text: string): string =>
  text.replaceAll(/[^\P{Nd}\d]/gu, (digit) => {
    const code = digit.codePointAt(0) ?? 0;
    let first = code;
    while (/\p{Nd}/u.test(String.fromCodePoint(first - 1))) first -= 1;
    return String((code - first) % 10);
  });

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Characters for which Python's `str.isprintable` is false. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;

function escaped(letter: string): string {
  const known = ESCAPES[letter];
  if (known !== undefined || !UNPRINTABLE.test(letter)) return known ?? letter;
  const code = (letter.codePointAt(0) ?? 0).toString(16);
  return code.length <= 2
    ? `\\x${code.padStart(2, '0')}`
    : code.length <= 4
      ? `\\u${code.padStart(4, '0')}`
      : `\\U${code.padStart(8, '0')}`;
}

/** Python's `repr` of a string. */
export function pythonString(value: string): string {
  const quote = value.includes("'") && !value.includes('"') ? '"' : "'";
  const inner = Array.from(value, escaped).join('');
  return `${quote}${quote === "'" ? inner.replaceAll("'", "\\'") : inner}${quote}`;
}

/** Python's `repr` of a float: the shortest digits that give it back, with an exponent below 1e-4 and from 1e16 on. */
export function pythonFloat(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
  const sign = value < 0 || Object.is(value, -0) ? '-' : '';
  const [digits = '', power = '0'] = Math.abs(value).toExponential().replace('.', '').split('e');
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    const rest = digits.length > 1 ? `.${digits.slice(1)}` : '';
    const power10 = `${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;
    return `${sign}${digits.slice(0, 1)}${rest}e${power10}`;
  }
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  return `${sign}${digits.slice(0, exponent + 1).padEnd(exponent + 1, '0')}.${digits.slice(exponent + 1) || '0'}`;
}
