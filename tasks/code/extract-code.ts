/** Finds the code in a policy's answer. Every function takes time that is linear in the answer's length. */

import { stripped } from '../../protocol/python-text.ts';

/** A fenced block. Nothing but the language may be on the line that opens it. */
const BLOCK = /```[\p{L}\p{N}_]*\n([\s\S]*?)```/gu;

const blocksIn = (text: string): string[] => [...text.matchAll(BLOCK)].map(([, body = '']) => body);

/** As SkyRL-Gym's `lcb`: the last fenced block, without the white space around it. `undefined`: there is none. */
export function lastBlock(text: string): string | undefined {
  const last = blocksIn(text).at(-1);
  return last === undefined ? undefined : stripped(last);
}

/**
 * What a program of HumanEval may start with at the top level: base models continue with such a line after the
 * function.
 */
const NEXT_PART = /\n(?:class|def|async def|#|@|if|print|import|from|```|<)/u;

const defines = (code: string, name: string): boolean =>
  code.split('\n').some((line) => line.startsWith(`def ${name}`) || line.startsWith(`async def ${name}`));

/**
 * Programs that an answer may mean, best first; the first that compiles counts. `prompt`: the start of a program, which
 * the answer continues (a plain continuation, or the body in a fence) or contains again (a whole function in a fence).
 * `entry`: the function that the program must define.
 */
export function programsOf(answer: string, prompt: string, entry: string): string[] {
  // A continuation keeps its white space: Python reads it.
  const text = answer.replaceAll('\r\n', '\n');
  const blocks = blocksIn(text);
  const whole = blocks.findLast((block) => defines(block, entry)) ?? (defines(text, entry) ? text : undefined);
  if (whole !== undefined) return [`${prompt}\n    pass\n\n${whole}`, `${prompt}\n${whole}`, whole];
  const body = blocks.at(-1) ?? text;
  const cut = body.search(NEXT_PART);
  const indented = body
    .split('\n')
    .map((line) => `    ${line}`)
    .join('\n');
  return [
    prompt + body,
    ...(cut > 0 ? [prompt + body.slice(0, cut)] : []),
    ...(blocks.length > 0 ? [`${prompt}${prompt.endsWith('\n') ? '' : '\n'}${indented}`] : []),
  ];
}

/** The program of an answer to MBPP: what is between its marks, else the last fenced block, else the whole text. */
export function programOf(answer: string): string {
  const text = answer.replaceAll('\r\n', '\n');
  const begin = text.lastIndexOf('[BEGIN]');
  if (begin >= 0) {
    const rest = text.slice(begin + '[BEGIN]'.length);
    const end = rest.indexOf('[DONE]');
    return end < 0 ? rest : rest.slice(0, end);
  }
  return blocksIn(text).at(-1) ?? text.split('[DONE]', 1)[0] ?? '';
}
