/**
 * Logs of p5.js (SWE-bench Multimodal): Mocha's list of failures, between what the tests themselves print. Blocks of
 * JSON and of XML are left out before it is read, as they were for the lists.
 */

import { type LogParser, type Status, withoutColours } from './status.ts';

/** Blocks from a line that ends with a bracket to a line that is the closing one, and such values in one line. */
function withoutJson(log: string): string {
  const kept: string[] = [];
  let [object, list] = [false, false];
  for (const line of log.split('\n')) {
    const text = line.trimEnd();
    if (text.endsWith('{')) object = true;
    else if (text.endsWith('[')) list = true;
    else if (text === '}' && object) object = false;
    else if (text === ']' && list) list = false;
    else if (!object && !list && !isWhole(text, '{', '}') && !isWhole(text, '[', ']')) kept.push(line);
  }
  return kept.join('\n');
}

const isWhole = (text: string, open: string, close: string): boolean => text.startsWith(open) && text.endsWith(close);

/** Where the opening and the closing tags of one name are. */
interface Tags {
  readonly opens: number[];
  readonly closes: number[];
  /** How many of each are read. */
  opened: number;
  closed: number;
}

function tagsIn(log: string): Map<string, Tags> {
  const tags = new Map<string, Tags>();
  for (const { index, 1: slash, 2: name = '' } of log.matchAll(/<(\/?)([\p{L}\p{N}_]+)>/gu)) {
    const own = tags.get(name) ?? { opens: [], closes: [], opened: 0, closed: 0 };
    tags.set(name, own);
    (slash === '/' ? own.closes : own.opens).push(index);
  }
  return tags;
}

/** Moves on to the first closing tag at `from` or later. Returns its place, and how many tags open before it. */
function closing(tags: Tags, from: number): readonly [at: number, opened: number] | undefined {
  while ((tags.closes[tags.closed] ?? Infinity) < from) tags.closed += 1;
  const at = tags.closes[tags.closed];
  if (at === undefined) return undefined;
  while ((tags.opens[tags.opened] ?? Infinity) < from) tags.opened += 1;
  const before = tags.opened;
  while ((tags.opens[tags.opened] ?? Infinity) < at) tags.opened += 1;
  return [at, tags.opened - before];
}

/** From a tag to the one that closes it, inner ones of its name counted. Those that are never closed stay, as tags. */
function withoutXml(log: string): string {
  const tags = tagsIn(log);
  const kept: string[] = [];
  let end = 0;
  for (const { index, 0: head, 1: name = '' } of log.matchAll(/<([\p{L}\p{N}_]+)>/gu)) {
    const own = tags.get(name);
    if (index < end || own === undefined) continue;
    const from = end;
    let [open, last] = [1, index + head.length];
    while (open > 0) {
      const next = closing(own, last);
      if (next === undefined) break;
      open += next[1] - 1;
      last = next[0] + head.length + 1;
      end = last;
    }
    if (end > from) kept.push(log.slice(from, index), head.repeat(open));
  }
  return kept.join('') + log.slice(end);
}

/** Each line of a failure's name is further right than the one before. */
function isName(lines: readonly string[]): boolean {
  const indents = lines.map((line) => line.length - line.trimStart().length);
  return indents.every((indent, i) => indent > (indents[i - 1] ?? 0));
}

/** `1) suite`, inner suites and the test in lines of their own, to the first colon. */
export const p5: LogParser = (log) => {
  const found = new Map<string, Status>();
  const text = withoutXml(withoutJson(withoutColours(log)));
  for (const [, name = ''] of text.matchAll(/(?<![^\n])[^\S\n]*\p{Nd}+\)([\s\S]{0,1000}?):/gu)) {
    const lines = name.split('\n');
    if (isName(lines)) found.set(lines.map((line) => line.trim()).join(':'), 'FAILED');
  }
  return found;
};
