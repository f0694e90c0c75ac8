/**
 * SkyRL-Agent's rules for code that reads standard input (its `coder1`, for `codegen`): all fenced blocks are one
 * program, and numbers may differ a little.
 */

import { stripped, wordsOf } from '../../protocol/python-text.ts';

const TOLERANCE = 1e-6;
const BLOCK = /```[\p{L}\p{N}_]*\n([\s\S]*?)\n```/gu;
const THOUGHT_END = '</think>';

/** All fenced blocks after the thoughts, one after the other. `undefined`: there is no code in them. */
export function allBlocks(text: string): string | undefined {
  const end = text.indexOf(THOUGHT_END);
  const answer = end < 0 ? text : stripped(text.slice(end + THOUGHT_END.length));
  const code = stripped([...answer.matchAll(BLOCK)].map(([, body = '']) => body).join('\n'));
  return code === '' ? undefined : code;
}

const FLOAT = /^[+-]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:e[+-]?\d+(?:_\d+)*)?$/iu;
const INFINITE = /^([+-]?)inf(?:inity)?$/iu;

/** As Python's `float`; `undefined` if it is none. */
function floatOf(token: string): number | undefined {
  const infinite = INFINITE.exec(token);
  if (infinite !== null) return infinite[1] === '-' ? -Infinity : Infinity;
  return FLOAT.test(token) ? Number(token.replaceAll('_', '')) : undefined;
}

const isYesOrNo = (token: string): boolean => /^(?:yes|no)$/iu.test(token);

function alike(given: string, expected: string): boolean {
  if (given === expected) return true;
  if (isYesOrNo(given) && isYesOrNo(expected)) return given.toLowerCase() === expected.toLowerCase();
  const [one, other] = [floatOf(given), floatOf(expected)];
  return one !== undefined && other !== undefined && Math.abs(one - other) <= TOLERANCE;
}

const linesOf = (text: string): string[] => stripped(text).replaceAll('\r\n', '\n').split('\n');

/** True if a program's output is the expected one: as many lines, each with as many words, and these alike. */
export function nearlySameOutput(given: string, expected: string): boolean {
  const [one, other] = [linesOf(given), linesOf(expected)];
  if (one.length !== other.length) return false;
  return one.every((line, i) => {
    if (line === other[i]) return true;
    const [words, wanted] = [wordsOf(line), wordsOf(other[i] ?? '')];
    return words.length === wanted.length && words.every((word, k) => alike(word, wanted[k] ?? ''));
  });
}
