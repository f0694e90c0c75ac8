/**
 * SkyRL-Gym's verdicts on answers of AIME, by text. The rule is that of Minerva (Lewkowycz et al., 2022, appendix D.1):
 * units and decoration are removed, and short forms of LaTeX are written out. Only the end of a text is read.
 */

import { isDigits, PYTHON_SPACE, stripped } from '../../protocol/python-text.ts';
import { boxedAt } from './boxed.ts';

/** In this order. */
const REPLACED: ReadonlyArray<readonly [string, string]> = [
  ['an ', ''],
  ['a ', ''],
  ['.$', '$'],
  [String.raw`\$`, ''],
  [String.raw`\ `, ''],
  [' ', ''],
  ['mbox', 'text'],
  [String.raw`,\text{and}`, ','],
  [String.raw`\text{and}`, ','],
  [String.raw`\text{m}`, String.raw`\text{}`],
];

/** In this order: some are parts of others. */
const REMOVED: readonly string[] = [
  ...'square ways integers dollars mph inches hours km units \\ldots sue points feet minutes digits cents'.split(' '),
  ...'degrees cm gm pounds meters meals edges students childrentickets multiples \\text{s} \\text{.}'.split(' '),
  '\\text{\ns}',
  ...'\\text{}^2 \\text{}^3'.split(' '),
  '\\text{\n}',
  ...'\\text{} \\mathrm{th} ^\\circ ^{\\circ} \\; ,\\! {,} " \\dots'.split(' '),
];

/** In this order. The texts have 300 characters at most, or are a record's. */
const REWRITTEN: ReadonlyArray<readonly [RegExp, string]> = [
  [/([^\n]*?)(\$)([^\n]*?)(\$)([^\n]*)/g, '$$$3$$'],
  [/(\\text\{)([^\n]*?)(\})/g, '$2'],
  [/(\\textbf\{)([^\n]*?)(\})/g, '$2'],
  [/(\\overline\{)([^\n]*?)(\})/g, '$2'],
  [/(\\boxed\{)([^\n]*)(\})/g, '$2'],
  [/(frac)([^{])([^\n])/gu, 'frac{$2}{$3}'],
  [/(sqrt)([^{])/gu, 'sqrt{$2}'],
];

export function minervaNormalized(answer: string): string {
  let text = answer.slice(answer.lastIndexOf('=') + 1);
  for (const [from, to] of REPLACED) text = text.replaceAll(from, () => to);
  for (const part of REMOVED) text = text.replaceAll(part, '');
  for (const [from, to] of REWRITTEN) text = text.replace(from, to);
  text = text.replaceAll('$', '');
  const plain = text.replaceAll(',', '');
  return stripped(isDigits(plain) ? plain : text);
}

/** The last `most` characters, counted as Python does. `most` is small. */
function ending(text: string, most: number): string {
  return Array.from(text.slice(-2 * most - 1))
    .slice(-most)
    .join('');
}

export interface TextVerdict {
  readonly passed: boolean;
  /** `null`: there is none. */
  readonly said: string | null;
}

const ANSWER = new RegExp(`answer[${PYTHON_SPACE}]*:[${PYTHON_SPACE}]*([^\\n<]+)`, 'giu');

/** The last `Answer: …` of the last 300 characters, normalized, is the normalized ground truth. */
export function minervaVerdict(solution: string, groundTruth: string): TextVerdict {
  const found = [...ending(solution, 300).matchAll(ANSWER)].at(-1)?.[1] ?? '[INVALID]';
  const said = minervaNormalized(found);
  return { passed: said === minervaNormalized(groundTruth), said };
}

/** The last `\boxed{…}` of the last 100 characters is the ground truth, character by character. */
export function strictBoxVerdict(solution: string, groundTruth: string): TextVerdict {
  const text = ending(solution, 100);
  const said = boxedAt(text, text.lastIndexOf(String.raw`\boxed{`), false) ?? null;
  return { passed: said === groundTruth, said };
}
