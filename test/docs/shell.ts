/** The commands of a shell snippet as words, with the comment that follows them. Quotes and `\` at a line's end are understood. */

import type { Piece } from './markdown.ts';

export interface ShellCommand {
  readonly file: string;
  readonly line: number;
  readonly words: readonly string[];
  /** What stands behind `#` on the line; empty for all but the first command of a pipe. */
  readonly comment: string;
}

const TOKEN = /\s+|#[^\n]*|(\|\|?|&&|;|>>?)|((?:'[^']*'|"[^"]*"|\\.|[^\s'"\\|&;>])+)/gy;

const unquoted = (word: string) =>
  word.replaceAll(/'([^']*)'|"([^"]*)"|\\(.)/g, (_, a?: string, b?: string, c?: string) => a ?? b ?? c ?? '');

/** `NAME=value` before a command is its environment, `$` a prompt. */
function withoutPrelude(words: readonly string[]): string[] {
  const begin = words.findIndex((word) => word !== '$' && !/^[A-Z_]+=/.test(word));
  return begin < 0 ? [] : words.slice(begin);
}

function commandsOfLine(file: string, line: number, text: string): ShellCommand[] {
  const commands: string[][] = [[]];
  let comment = '';
  for (const [token, separator, word] of text.matchAll(TOKEN)) {
    if (token.startsWith('#')) comment = token.slice(1).trim();
    if (separator !== undefined) commands.push([]);
    if (word !== undefined) commands.at(-1)?.push(unquoted(word));
  }
  return commands.map((words, i) => ({ file, line, words: withoutPrelude(words), comment: i === 0 ? comment : '' }));
}

export function shellCommands({ file, line, text }: Piece): ShellCommand[] {
  const lines = text.replaceAll('\\\n', '  ').split('\n');
  let at = line;
  return lines.flatMap((one) => commandsOfLine(file, at++, one)).filter(({ words }) => words.length > 0);
}
