/** The code and the answer in a message of the policy, as SkyRL-Gym's patterns find them. Takes time linear in it. */

import { PYTHON_SPACE, stripped } from '../../protocol/python-text.ts';

const OPEN = '```repl';
const CLOSE = '\n```';
const SPACES = new RegExp(`[${PYTHON_SPACE}]*`, 'uy');
const LEADING = new RegExp(`^[${PYTHON_SPACE}]+`, 'u');

/** The index after the white space that begins at `from`. */
function afterSpace(text: string, from: number): number {
  SPACES.lastIndex = from;
  return from + (SPACES.exec(text)?.[0].length ?? 0);
}

/** The code of the block that opens before `from`, and where it ends. */
function blockAt(text: string, from: number): { readonly code: string; readonly end: number } | undefined {
  const space = text.slice(from, afterSpace(text, from));
  const last = space.lastIndexOf('\n');
  if (last < 0) return undefined;
  const begin = from + last + 1;
  const close = text.indexOf(CLOSE, begin);
  if (close >= 0) return { code: text.slice(begin, close), end: close + CLOSE.length };
  // Nothing but white space, whose last line end is that of the closing fence.
  const isEmpty = text.startsWith('```', begin) && space.lastIndexOf('\n', last - 1) >= 0 && last > 0;
  return isEmpty ? { code: '', end: begin + 3 } : undefined;
}

/** The code of the last closed block. `undefined`: there is none. */
export function replBlock(message: string): string | undefined {
  let code: string | undefined;
  for (let from = message.indexOf(OPEN); from >= 0;) {
    const block = blockAt(message, from + OPEN.length);
    if (block !== undefined) code = stripped(block.code);
    from = message.indexOf(OPEN, block?.end ?? from + OPEN.length);
  }
  return code;
}

/** The places after each `word` that is the first thing of its line, in order. */
function afterEach(message: string, word: string): number[] {
  const found: number[] = [];
  for (let line = 0; line <= message.length;) {
    const next = message.indexOf('\n', line);
    const end = next < 0 ? message.length : next;
    const text = message.slice(line, end).replace(LEADING, '');
    if (text.startsWith(word)) found.push(end - text.length + word.length);
    line = end + 1;
  }
  return found;
}

/** The last bracket after which its line has nothing but white space. */
function lastClosing(message: string): number {
  for (let at = message.lastIndexOf(')'); at >= 0; at = at === 0 ? -1 : message.lastIndexOf(')', at - 1)) {
    const end = afterSpace(message, at + 1);
    if (end === message.length || message.slice(at + 1, end).includes('\n')) return at;
  }
  return -1;
}

/** What a message says that its answer is: a variable, before a text. */
export interface SaidFinal {
  readonly variable?: string;
  readonly text?: string;
}

const unquoted = (text: string, quote: '"' | "'"): string => {
  let [from, to] = [0, text.length];
  while (from < to && text[from] === quote) from += 1;
  while (from < to && text[to - 1] === quote) to -= 1;
  return text.slice(from, to);
};

/** The last FINAL_VAR(…), else FINAL(…). */
export function finalIn(message: string): SaidFinal {
  let variable: string | undefined;
  let begin = 0;
  for (const from of afterEach(message, 'FINAL_VAR(')) {
    const end = from < begin ? -1 : message.indexOf(')', from);
    if (end < 0) continue;
    variable = unquoted(unquoted(stripped(message.slice(from, end)), '"'), "'");
    begin = end + 1;
  }
  if (variable !== undefined) return { variable };
  const [from] = afterEach(message, 'FINAL(');
  const end = from === undefined ? -1 : lastClosing(message);
  return from !== undefined && from <= end ? { text: stripped(message.slice(from, end)) } : {};
}
