/**
 * SkyRL-Agent's rules for code (its `coder1`, for `codegen`): all fenced blocks are one program. It reads standard
 * input, and numbers of its output may differ a little; or tests in Python call it.
 */

import { stripped, wordsOf } from '../../protocol/python-text.ts';
import type { Verdict } from '../../protocol/stages.ts';
import type { TaskContext } from '../environment.ts';
import { type Bounds, zero } from './candidate-sandbox.ts';
import { gradeByCalls } from './judged-calls.ts';

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

/** Tests in Python. */
export interface PythonTests {
  readonly kind: 'functional' | 'program' | 'pytest';
  readonly source: string;
}

/** SkyRL's names of them, in its order. */
const KINDS = { functional: 'functional', solution_file: 'program', pytest: 'pytest' } as const;

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
};

/** The tests in Python of a ground truth, or of its JSON text. `undefined`: it has none. */
export function pythonTestsIn(given: unknown): PythonTests | undefined {
  const truth = typeof given === 'string' ? parsed(given) : given;
  if (typeof truth !== 'object' || truth === null || Array.isArray(truth)) return undefined;
  for (const [name, kind] of Object.entries(KINDS)) {
    const source = (truth as Readonly<Record<string, unknown>>)[name];
    if (typeof source === 'string' && source.trim() !== '') return { kind, source };
  }
  return undefined;
}

/** The verdict of tests in Python. `prefix`: what comes before the code where the tests follow it. */
export async function gradePythonTests(
  answer: string,
  { kind, source }: PythonTests,
  prefix: string,
  bounds: Bounds,
  ctx: Pick<TaskContext, 'provider' | 'id'>,
): Promise<Verdict> {
  const code = allBlocks(answer);
  if (code === undefined) return zero('there is no code in a fence');
  const helpers = kind === 'functional' ? prefix : '';
  const tested = { helpers, reference: '', setup: '', tests: [source], entry: '', as: kind };
  return gradeByCalls([helpers === '' ? code : `${helpers}\n${code}`], tested, bounds, ctx);
}
