/**
 * The answer in a solution of GSM8K. SkyRL compares the texts of numbers, `number` compares their values: `1,234.` is
 * 1234, and the last `####` counts. No rule reads a text more than once.
 */

import { asciiDigits } from '../../protocol/python-text.ts';
import { decimalOf, type Fraction, sameFraction } from './fraction.ts';

export type Method = 'strict' | 'flexible';

/**
 * SkyRL-Gym's rule: `strict` takes the first number after `#### `, without commas; `flexible` the last one of the text,
 * with them, that is not a dot alone. `null`: there is none.
 */
export function skyrlAnswer(solution: string, method: Method): string | null {
  if (method === 'strict') return /#### (-?[0-9.,]+)/.exec(solution)?.[1]?.replaceAll(',', '') ?? null;
  const found = solution.match(/-?[0-9.,]+/g) ?? [];
  return found.findLast((text) => text !== '.') ?? found[0] ?? null;
}

/** SkyRL-Gym's reward: `score` for the same text, `formatScore` for another one, 0 for none. */
export function skyrlReward(
  solution: string,
  groundTruth: string,
  method: Method,
  { score = 1, formatScore = 0 }: { readonly score?: number; readonly formatScore?: number } = {},
): number {
  const answer = skyrlAnswer(solution, method);
  if (answer === null) return 0;
  return answer === groundTruth ? score : formatScore;
}

const GROUPED = String.raw`\d{1,3}(?:,\d{3})+(?!\d)|\d+`;
const NUMBER = new RegExp(
  String.raw`([-−+]?) {0,2}[$€£]? {0,2}([-−+]?)((?:${GROUPED})(?:\.\d+)?|\.\d+)(?: {0,2}\/ {0,2}(\d+)(?![\d.]))?`,
  'g',
);
/** A minus after a number or directly after a letter is an operator: `33-16` has 33 and 16. */
const IS_OPERATOR = /[\p{N})\]] ?$|\p{L}$/u;
/** A number has no more characters. */
const LONGEST = 100;

/** LaTeX and Markdown around numbers are no part of them. */
const bare = (text: string): string =>
  asciiDigits(text)
    .replaceAll(/\\[!,;: ]|\{,\}|\*\*|__|[\u202f\u2009\xa0]/g, (found) => (found === '{,}' ? ',' : ''))
    .replaceAll(String.raw`\$`, '$')
    .replaceAll(/\\[dt]?frac\{(\d+)\}\{(\d+)\}/g, '$1/$2');

function valueOf(match: RegExpExecArray, text: string): Fraction | undefined {
  const [whole, outer = '', inner = '', digits = '', below] = match;
  if (whole.length > LONGEST) return undefined;
  const isMinus = [outer, inner].some((sign) => sign === '-' || sign === '−');
  const isOperator = outer !== '' && IS_OPERATOR.test(text.slice(Math.max(0, match.index - 2), match.index));
  const value = decimalOf(digits.replaceAll(',', ''));
  if (value === undefined) return undefined;
  const bottom = below === undefined ? 1n : BigInt(below);
  if (bottom === 0n) return undefined;
  const top = isMinus && !isOperator ? -value.top : value.top;
  return { top, bottom: value.bottom * bottom };
}

/** The first or the last number of a text. */
function numberIn(text: string, which: 'first' | 'last'): Fraction | undefined {
  const cleaned = bare(text);
  const found = cleaned.matchAll(NUMBER);
  if (which === 'first') {
    const { value } = found.next();
    return value === undefined ? undefined : valueOf(value, cleaned);
  }
  const last = [...found].at(-1);
  return last === undefined ? undefined : valueOf(last, cleaned);
}

/** The value after the last `####`; by `flexible`, without a marker, the last number of the text. */
export function numberAnswer(solution: string, method: Method): Fraction | undefined {
  const at = solution.lastIndexOf('####');
  if (at < 0) return method === 'flexible' ? numberIn(solution, 'last') : undefined;
  const [line = ''] = solution
    .slice(at + 4)
    .trimStart()
    .split('\n', 1);
  return numberIn(line, 'first');
}

/** The number that a record gives: after its last `####`, or the whole text. */
export function goldNumber(answer: string): { readonly text: string; readonly value: Fraction } | undefined {
  const marker = answer.lastIndexOf('####');
  const text = (marker < 0 ? answer : answer.slice(marker + 4)).trim();
  const value = numberIn(text, 'first');
  return value === undefined ? undefined : { text: text.replaceAll(/[,$]/g, ''), value };
}

export const isSameNumber = (a: Fraction | undefined, b: Fraction): boolean => a !== undefined && sameFraction(a, b);
