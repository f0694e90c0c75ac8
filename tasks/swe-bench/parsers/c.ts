/**
 * Logs of test runners of projects in C and C++, a line a test, except doctest's, which is XML. Names are written as in
 * SWE-bench Multilingual's lists.
 */

import { byLine, type LogParser, type Status } from './status.ts';

const REDIS: Readonly<Record<string, Status>> = { ok: 'PASSED', err: 'FAILED', skip: 'SKIPPED', ignore: 'SKIPPED' };

/** `[ok]: NAME (12 ms)`. A failure also says the file: `[err]: NAME in tests/unit/x.tcl`. */
export const redis = byLine((padded, found) => {
  const [, word = '', rest = ''] = /^\[(ok|err|skip|ignore)\]:\s(.+)$/u.exec(padded.trim()) ?? [];
  const status = REDIS[word];
  if (status === undefined) return;
  const name = rest.replace(/\s\(\d+\s{0,8}m?s\)$/u, '');
  const file = status === 'FAILED' ? /\sin\s+\S+$/u.exec(name) : null;
  found.set(file === null ? name : name.slice(0, file.index).trimEnd(), status);
});

/** `PASS: NAME`, as automake's test drivers print it. */
export const automake = byLine((line, found) => {
  const [, word, name] = /^(PASS|FAIL):\s(.+)$/u.exec(line.trim()) ?? [];
  if (name !== undefined) found.set(name, word === 'PASS' ? 'PASSED' : 'FAILED');
});

const MICROPYTHON: Readonly<Record<string, Status>> = { pass: 'PASSED', FAIL: 'FAILED', skip: 'SKIPPED' };

/** `pass  basics/array1.py`. */
export const micropython = byLine((line, found) => {
  const [, word = '', name] = /^(pass|FAIL|skip)\s+(\S.*)$/u.exec(line.trim()) ?? [];
  const status = MICROPYTHON[word];
  if (name !== undefined && status !== undefined) found.set(name, status);
});

/** `[       OK ] suite.test (0 ms)`. The summary at the end has no times, and is not read. */
export const googleTest = byLine((padded, found) => {
  const line = padded.trim();
  const mark = [...line.matchAll(/\[\s*(OK|FAILED)\s*\]\s/gu)].at(-1);
  const time = line.lastIndexOf(' (');
  if (mark === undefined || !line.endsWith(')')) return;
  const begin = mark.index + mark[0].length;
  if (time >= begin) found.set(line.slice(begin, time), mark[1] === 'OK' ? 'PASSED' : 'FAILED');
});

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };

function decoded(text: string): string {
  return text.replaceAll(/&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(\w{2,4}));/gu, (whole, decimal, hex, name) => {
    if (typeof name === 'string') return ENTITIES[name] ?? whole;
    const code = typeof hex === 'string' ? Number.parseInt(hex, 16) : Number(decimal);
    return code <= 0x10_ff_ff ? String.fromCodePoint(code) : whole;
  });
}

interface Element {
  readonly tag: string;
  readonly name: string;
  failed: boolean;
}

const attribute = (text: string, name: string): string | undefined => {
  const [, value] = new RegExp(String.raw`\b${name}="([^"]*)"`, 'u').exec(text) ?? [];
  return value === undefined ? undefined : decoded(value);
};

/**
 * doctest with `-s -r=xml`: `CASE > SUBCASE` passes if all its expressions do, those of inner subcases too. A report
 * that is cut off, or whose elements do not close, shows no test.
 */
export const doctest: LogParser = (log) => {
  const found = new Map<string, Status>();
  const begin = log.indexOf('<doctest');
  const end = begin < 0 ? -1 : log.indexOf('</doctest>', begin);
  if (end < 0) return found;
  const open: Element[] = [];
  const ended: Array<readonly [at: number, name: string, status: Status]> = [];
  const begun: number[] = [];
  for (const [, closing, tag = '', given = ''] of log
    .slice(begin, end)
    .matchAll(/<(\/?)(TestCase|SubCase|Expression)\b([^<>]*)>/gu)) {
    if (tag === 'Expression') {
      const top = open.at(-1);
      if (closing === '' && attribute(given, 'success') !== 'true' && top) top.failed = true;
      continue;
    }
    if (closing === '') {
      if (given.endsWith('/')) continue;
      // Python writes a name that is missing as None.
      open.push({ tag, name: attribute(given, 'name') ?? 'None', failed: false });
      begun.push(ended.length + open.length);
      continue;
    }
    const [one, at = 0] = [open.pop(), begun.pop()];
    if (one?.tag !== tag) return new Map();
    const [first] = open;
    if (one.failed && open.at(-1)?.tag === 'SubCase') (open.at(-1) ?? one).failed = true;
    if (tag === 'SubCase' && first?.tag === 'TestCase')
      ended.push([at, `${first.name} > ${one.name}`, one.failed ? 'FAILED' : 'PASSED']);
  }
  if (open.length > 0) return new Map();
  for (const [, name, status] of ended.toSorted(([a], [b]) => a - b)) found.set(name, status);
  return found;
};
