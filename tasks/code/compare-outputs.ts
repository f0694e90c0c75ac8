/**
 * Compares what a policy's code gave with what a test expects, as LiveCodeBench and SkyRL-Gym do. It runs in the
 * worker: the expected outputs never enter the sandbox.
 */

import { entriesOf, readWritten, WrittenFloat } from '../../protocol/written-json.ts';
import { asciiDigits, stripped, wordsOf } from '../../protocol/python-text.ts';

const linesOf = (text: string): string[] =>
  stripped(text)
    .split('\n')
    .map((line) => stripped(line));

const NUMBER = /^([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d{1,15}))?$/u;

const withoutZeros = (digits: string): string => {
  let to = digits.length;
  while (to > 0 && digits[to - 1] === '0') to -= 1;
  return digits.slice(0, to);
};

/** One text for all ways to write a decimal number's value; `undefined` if it is none. A NaN equals nothing. */
function decimalOf(token: string): string | undefined {
  // Python leaves out underscores, and reads the digits of every script.
  const text = asciiDigits(token.replaceAll('_', ''));
  const infinite = /^([+-]?)inf(?:inity)?$/iu.exec(text);
  if (infinite !== null) return `${infinite[1] === '-' ? '-' : ''}inf`;
  const [, sign = '', whole = '', part = '', alone = '', exponent = '0'] = NUMBER.exec(text) ?? [];
  if (whole === '' && alone === '') return undefined;
  const digits = whole + part + alone;
  const first = digits.search(/[1-9]/u);
  if (first < 0) return '0';
  const power = whole.length + Number(exponent) - first;
  return `${sign === '-' ? '-' : ''}${withoutZeros(digits.slice(first))}e${power}`;
}

function sameNumbers(given: string, expected: string): boolean {
  const [one, other] = [wordsOf(given), wordsOf(expected)];
  if (one.length !== other.length) return false;
  return one.every((token, i) => {
    const value = decimalOf(token);
    return value !== undefined && value === decimalOf(other[i] ?? '');
  });
}

/**
 * True if a program's output is the expected one: as many lines, without white space around the text and around each
 * line; each line is equal, or its tokens are equal numbers.
 */
export function sameOutput(given: string, expected: string): boolean {
  const [one, other] = [linesOf(given), linesOf(expected)];
  if (one.length !== other.length) return false;
  return one.every((line, i) => line === other[i] || sameNumbers(line, other[i] ?? ''));
}

/** A JSON text as Python reads it. Errors: `SyntaxError`. */
export function readExpected(text: string): unknown {
  const trimmed = stripped(text);
  if (/^(?:NaN|-?Infinity)$/u.test(trimmed)) return Number(trimmed);
  return readWritten(trimmed);
}

const isNumber = (value: unknown): value is number | bigint | boolean | WrittenFloat =>
  typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean' || value instanceof WrittenFloat;

/** In Python `1 == 1.0 == True`, and integers have any length. */
function exactly(value: number | bigint | boolean | WrittenFloat): number | bigint {
  const number = value instanceof WrittenFloat ? value.value : typeof value === 'boolean' ? Number(value) : value;
  return typeof number === 'number' && Number.isInteger(number) ? BigInt(number) : number;
}

const hex = (text: string): bigint => (text.startsWith('-') ? -BigInt(text.slice(1)) : BigInt(text));

/** As Python writes a `Decimal` or a `Fraction`. */
const RATIO = /^(-?\d{1,4000})(?:\.(\d{1,4000}))?(?:E([+-]\d{1,4}))?(?:\/(\d{1,4000}))?$/u;

function ratioOf(text: string): readonly [top: bigint, bottom: bigint] | undefined {
  const [, whole, part = '', exponent = '0', below = '1'] = RATIO.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const power = Number(exponent) - part.length;
  const scale = 10n ** BigInt(Math.abs(power));
  return [BigInt(whole + part) * (power > 0 ? scale : 1n), BigInt(below) * (power < 0 ? scale : 1n)];
}

/** A finite number is a quotient of integers, too. */
function exactRatio(value: number | bigint): readonly [top: bigint, bottom: bigint] | undefined {
  if (typeof value === 'bigint') return [value, 1n];
  if (!Number.isFinite(value)) return undefined;
  let [top, bottom] = [value, 1n];
  for (; !Number.isInteger(top); top *= 2) bottom *= 2n;
  return [BigInt(top), bottom];
}

function sameRatio(text: string, expected: number | bigint): boolean {
  const [one, other] = [ratioOf(text), exactRatio(expected)];
  return one !== undefined && other !== undefined && one[0] * other[1] === other[0] * one[1];
}

const FLOATS: Readonly<Record<string, number>> = { inf: Infinity, '-inf': -Infinity, nan: Number.NaN };

/**
 * True if a value, encoded by `typed_values.py`, equals one of JSON, by Python's `==`. A tuple counts as a list at the
 * top alone, as in LiveCodeBench. What is malformed equals nothing.
 */
export function sameValue(given: unknown, expected: unknown, top = true): boolean {
  if (isNumber(given)) return isNumber(expected) && exactly(given) === exactly(expected);
  if (given === null || typeof given === 'string') return given === expected;
  if (typeof given !== 'object') return false;
  const [[kind, body] = ['', undefined]] = Object.entries(given as Record<string, unknown>);
  if ((kind === 'i' || kind === 'f') && typeof body === 'string') {
    if (!isNumber(expected)) return false;
    const value =
      kind === 'i' ? (/^-?0x[0-9a-f]+$/u.test(body) ? hex(body) : Number.NaN) : (FLOATS[body] ?? Number(body));
    return exactly(value) === exactly(expected);
  }
  if ((kind === 'D' || kind === 'q') && typeof body === 'string')
    return isNumber(expected) && sameRatio(body, exactly(expected));
  if (!Array.isArray(body)) return false;
  if (kind === 'c') return Number(body[1]) === 0 && sameValue({ f: body[0] as unknown }, expected);
  if (kind === 'l' || (kind === 't' && top))
    return (
      Array.isArray(expected) &&
      expected.length === body.length &&
      body.every((item, i) => sameValue(item, expected[i], false))
    );
  if (kind !== 'd' || typeof expected !== 'object' || expected === null || Array.isArray(expected)) return false;
  if (expected instanceof WrittenFloat) return false;
  const wanted = new Map(entriesOf(expected));
  const entries = body as unknown[];
  const keys = new Set(entries.map((entry) => (Array.isArray(entry) ? (entry[0] as unknown) : undefined)));
  return (
    entries.length === wanted.size &&
    keys.size === wanted.size &&
    entries.every((entry) => {
      if (!Array.isArray(entry)) return false;
      const [key, value] = entry as unknown[];
      return typeof key === 'string' && wanted.has(key) && sameValue(value, wanted.get(key), false);
    })
  );
}
