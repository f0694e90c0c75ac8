/**
 * Rows as the text that pandas 2.3 prints for them: `DataFrame(rows).to_string(index=False)`. SkyRL's policies read
 * results in this form. What it depends on is the values alone, not the types that the columns were declared with.
 */

import type { SqlRow, SqlValue } from './sql-request.ts';

/** pandas' `display.precision`. */
const DIGITS = 6;

/** Python counts code points. */
const lengthOf = (text: string): number => {
  let length = text.length;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    const next = text.charCodeAt(i + 1);
    if (code >= 0xd800 && code <= 0xdbff && next >= 0xdc00 && next <= 0xdfff) length -= 1;
  }
  return length;
};
const padStart = (text: string, width: number): string => ' '.repeat(Math.max(0, width - lengthOf(text))) + text;

/**
 * Of two numbers that are equally near, Python takes the even one, and JavaScript the larger one. `exact`: 20 digits,
 * which tell every other number from one between two.
 */
function tieToEven(rounded: string, exact: string): string {
  const kept = exact.slice(0, rounded.length);
  const isTie = /^50*$/u.test(exact.slice(rounded.length));
  return isTie && Number(kept.at(-1)) % 2 === 0 ? kept : rounded;
}

const special = (value: number): string | undefined =>
  Number.isNaN(value) ? 'NaN' : value === Infinity ? 'inf' : value === -Infinity ? '-inf' : undefined;

const signOf = (value: number): string => (value < 0 || Object.is(value, -0) ? '-' : '');

/** Python's `f'{value:.6f}'`. */
function fixed(value: number): string {
  const named = special(value);
  if (named !== undefined) return named;
  const size = Math.abs(value);
  const digits =
    size >= 1e21 ? `${BigInt(size)}.${'0'.repeat(DIGITS)}` : tieToEven(size.toFixed(DIGITS), size.toFixed(20));
  return signOf(value) + digits;
}

/** Python's `f'{value:.6e}'`. */
function scientific(value: number): string {
  const named = special(value);
  if (named !== undefined) return named;
  const size = Math.abs(value);
  const [mantissa = '', exponent = ''] = size.toExponential(DIGITS).split('e');
  const [exact = '', exactExponent] = size.toExponential(20).split('e');
  const digits = exponent === exactExponent ? tieToEven(mantissa, exact) : mantissa;
  return `${signOf(value)}${digits}e${exponent.charAt(0)}${exponent.slice(1).padStart(2, '0')}`;
}

const NUMBER = /^-?\d+\.\d*$/u;

/** Removes zeros that all numbers of a column end with. One stays after the point. */
function trimZeros(texts: readonly string[]): string[] {
  const zeros = texts
    .filter((text) => NUMBER.test(text))
    .map((text) => DIGITS - text.replace(/0+$/u, '').split('.').slice(1).join('').length);
  const most = Math.min(...zeros);
  return texts.map((text) => {
    if (!NUMBER.test(text)) return text;
    const trimmed = text.slice(0, text.length - most);
    return trimmed.endsWith('.') ? `${trimmed}0` : trimmed;
  });
}

function floatColumn(values: readonly number[]): string[] {
  const plain = trimZeros(values.map(fixed));
  const sizes = values.map(Math.abs);
  const isLong = plain.some((text) => text.length > DIGITS + 6);
  const hasLarge = sizes.some((size) => size > 1e6);
  const hasSmall = sizes.some((size) => size < 10 ** -DIGITS && size > 0);
  return hasSmall || (isLong && hasLarge) ? values.map(scientific) : plain;
}

/** Python's `repr` of bytes. */
function bytesText(bytes: Uint8Array): string {
  const quote = bytes.includes(0x27) && !bytes.includes(0x22) ? '"' : "'";
  const named: Readonly<Record<number, string>> = {
    9: String.raw`\t`,
    10: String.raw`\n`,
    13: String.raw`\r`,
    92: '\\\\',
  };
  const shown = Array.from(bytes, (byte) => {
    const char = String.fromCharCode(byte);
    if (named[byte] !== undefined) return named[byte];
    if (char === quote) return `\\${char}`;
    return byte >= 32 && byte < 127 ? char : String.raw`\x${byte.toString(16).padStart(2, '0')}`;
  });
  return `b${quote}${shown.join('')}${quote}`;
}

const ESCAPES: Readonly<Record<string, string>> = { '\t': String.raw`\t`, '\n': String.raw`\n`, '\r': String.raw`\r` };

/** A value among others that are not numbers. */
function objectText(value: SqlValue): string {
  if (value === null) return 'None';
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'number') {
    const text = fixed(value).replace(/0+$/u, '').replace(/\.$/u, '.0');
    return text.startsWith('-') ? text : ` ${text}`;
  }
  return typeof value === 'string' ? value.replaceAll(/[\t\n\r]/gu, (char) => ESCAPES[char] ?? char) : bytesText(value);
}

interface Column {
  readonly isNumeric: boolean;
  readonly texts: readonly string[];
}

function columnOf(values: readonly SqlValue[]): Column {
  const present = values.filter((value) => value !== null);
  const isNumeric =
    present.length > 0 && present.every((value) => typeof value === 'bigint' || typeof value === 'number');
  if (!isNumeric) return { isNumeric, texts: values.map(objectText) };
  if (values.every((value) => typeof value === 'bigint')) return { isNumeric, texts: values.map(String) };
  // One real number or NULL makes real numbers of all.
  return { isNumeric, texts: floatColumn(values.map((value) => (value === null ? Number.NaN : Number(value)))) };
}

/** `names`: of the columns. Absent: their numbers, from 0. A result without rows shows no columns, as in pandas. */
export function dataFrameText(rows: readonly SqlRow[], names?: readonly string[]): string {
  const width = rows[0]?.length ?? 0;
  if (width === 0) return 'Empty DataFrame\nColumns: []\nIndex: []';
  const numberWidth = String(width - 1).length;
  const columns = Array.from({ length: width }, (_, i) => {
    const { isNumeric, texts } = columnOf(rows.map((row) => row[i] ?? null));
    const label = names === undefined ? String(i).padEnd(numberWidth) : objectText(names[i] ?? '');
    const all = [isNumeric ? ` ${label}` : label, ...texts];
    const longest = all.reduce((most, text) => Math.max(most, lengthOf(text)), 0);
    return all.map((text) => padStart(text, longest));
  });
  return Array.from({ length: rows.length + 1 }, (_, line) => columns.map((column) => column[line]).join(' ')).join(
    '\n',
  );
}
