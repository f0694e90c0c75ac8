/**
 * Logs whose suites are the indentation of their lines: Calypso, Lighthouse with Mocha, Next and Plotly (SWE-bench
 * Multimodal). Names are written as in their lists, where the accidents of the parser that wrote those are part of a
 * name: any indented line is a suite until a line that is not further right.
 */

import { type LogParser, type Status, withoutColours } from './status.ts';

interface Suites {
  readonly open: () => readonly string[];
  /** The name of a test in the open suites. */
  readonly name: (test: string) => string;
  /** Reads a line that is no result. */
  readonly enter: (line: string) => void;
}

function suites(): Suites {
  const stack: Array<readonly [name: string, indent: number]> = [];
  const open = () => stack.map(([name]) => name);
  return {
    open,
    name: (test) => [...open(), test].join(' - '),
    enter: (line) => {
      const indent = line.length - line.trimStart().length;
      if (indent === 0) return;
      while ((stack.at(-1)?.[1] ?? 0) >= indent) stack.pop();
      stack.push([line.trim(), indent]);
    },
  };
}

const SIGNS: Readonly<Record<string, Status>> = { '✓': 'PASSED', '✕': 'FAILED' };

/** Jest with `--verbose`, after each command that the shell prints, to its summary. Suites outlive a command. */
export const calypso: LogParser = (log) => {
  const found = new Map<string, Status>();
  const { open, enter } = suites();
  for (const run of log.split(' ./node_modules/.bin/jest ').slice(1)) {
    for (const line of run.split('\n')) {
      if (line.startsWith('Test Suites') || line.startsWith('  ● ')) break;
      const inner = line.trimStart();
      const status = SIGNS[inner.charAt(0)];
      if (status === undefined) enter(line);
      else if (inner.length < line.length && /^.\s/u.test(inner)) {
        const test = inner.slice(2).replace(/\(\d+ms\)$/u, '');
        found.set(`${open().join(' - ')} - ${test}`.trim(), status);
      }
    }
  }
  return found;
};

/** Without the last time, and what follows it. */
function untimed(text: string): string {
  const time = [...text.matchAll(/\s\(\d+m+s\)/gu)].at(-1);
  return time === undefined ? text : text.slice(0, time.index);
}

/** Mocha's `spec`, for each `running N test files` to its summary. */
export const lighthouseMocha: LogParser = (log) => {
  const found = new Map<string, Status>();
  for (const whole of log.split(/running\s\d+\stest\sfiles/u).slice(1)) {
    const { name, enter } = suites();
    let end = whole.search(/\d\spassing/u);
    while (end > 0 && /\d/u.test(whole.charAt(end - 1))) end -= 1;
    for (const line of (end < 0 ? whole : whole.slice(0, end)).trim().split('\n')) {
      const [, sign, test] = /^(✔|\d+\))\s(.*)$/su.exec(line.trim()) ?? [];
      if (sign === undefined || test === undefined) enter(line);
      else found.set(name(untimed(test)), sign === '✔' ? 'PASSED' : 'FAILED');
    }
  }
  return found;
};

/** Each failed assertion, to the next empty line. */
function withoutAssertions(log: string): string {
  const kept: string[] = [];
  let from = 0;
  for (const { index, 0: head } of log.matchAll(/AssertionError:\s+#/gu)) {
    if (index < from) continue;
    const end = log.indexOf('\n\n', index + head.length);
    if (end < 0) break;
    kept.push(log.slice(from, index));
    from = end + 2;
  }
  return kept.join('') + log.slice(from);
}

const NOISE = ['ERROR', 'LOG', 'WARN', 'Check', 'in'];

/** Karma, after each `xvfb-run` that the shell prints, from the browser's start to the total. Suites outlive a run. */
const nextKarma: LogParser = (log) => {
  const found = new Map<string, Status>();
  const { name, enter } = suites();
  for (const run of withoutAssertions(withoutColours(log)).split(' xvfb-run ').slice(1)) {
    const started = run.split('Starting browser Chrome').at(-1) ?? '';
    for (const line of started.split('\n')) {
      if (line.startsWith('TOTAL')) break;
      const inner = line.trimStart();
      if (NOISE.some((word) => inner.startsWith(word))) continue;
      const sign = line.includes('✗') ? '✗' : '✓';
      const at = line.indexOf(sign);
      if (at < 0) enter(line);
      else found.set(name(line.slice(at + 1).trimStart()), sign === '✓' ? 'PASSED' : 'FAILED');
    }
  }
  return found;
};

/** Cypress' `spec`: a suite after each `Running: …)` and two empty lines. */
const nextCypress: LogParser = (log) => {
  const found = new Map<string, Status>();
  const heads: Array<{ readonly at: number; readonly end: number; readonly suite: string }> = [];
  const ending = /\)\n{3}\s{2}([^\n]*)\n/gu;
  for (let head = ending.exec(log); head !== null; head = ending.exec(log)) {
    const line = Math.max(log.lastIndexOf('\n', head.index) + 1, heads.at(-1)?.end ?? 0);
    const at = log.slice(line, head.index).indexOf('Running:');
    if (at >= 0) heads.push({ at: line + at, end: ending.lastIndex, suite: head[1] ?? '' });
    else ending.lastIndex = head.index + 1;
  }
  for (const [i, { end, suite }] of heads.entries()) {
    const text = log.slice(end, heads[i + 1]?.at);
    const set = (pattern: RegExp, status: Status): void => {
      for (const [, test = ''] of text.matchAll(pattern)) found.set(`${suite}: ${test.trim()}`, status);
    };
    set(/(?<![^\n])\s{4}\d+\)\s([^\n]*)/gu, 'FAILED');
    set(/(?<![^\n])\s{4}✓\s([^\n]*)\(/gu, 'PASSED');
  }
  return found;
};

/** Alibaba's Next, by version: 1.27 runs Cypress. */
export const next = (version: string): LogParser => (version === '1.27' ? nextCypress : nextKarma);

/** The sign's indentation, the name to the first colon after a blank, and what follows. `undefined`: another line. */
function entryOf(line: string, sign: '-' | '*'): { indent: number; name: string; rest: string } | undefined {
  const inner = line.trimStart();
  const indent = line.length - inner.length;
  if (indent === 0 || !inner.startsWith(sign)) return undefined;
  const text = inner.slice(1);
  const own = text.trimStart();
  const blanks = text.length - own.length;
  if (blanks === 0) return undefined;
  const colon = own.search(/\s:/u);
  if (colon >= 0) return { indent, name: own.slice(0, colon).trimEnd(), rest: own.slice(colon + 2).trimStart() };
  return blanks > 1 && own.startsWith(':') ? { indent, name: '', rest: own.slice(1).trimStart() } : undefined;
}

/** `- suite :` and `* test : ok`. What is not further right than the last suite is in none. */
export const plotly: LogParser = (log) => {
  const found = new Map<string, Status>();
  let [open, depth] = [[] as string[], 0];
  for (const line of log.split('\n')) {
    const suite = entryOf(line, '-');
    const test = suite === undefined ? entryOf(line, '*') : undefined;
    const { indent } = suite ?? test ?? { indent: depth + 1 };
    if (indent <= depth) open = [];
    if (suite !== undefined) [open, depth] = [[...open, suite.name], indent];
    if (test === undefined) continue;
    const result = test.rest.toLowerCase();
    const passes = result.includes('ok') && !result.includes('failed');
    found.set([...open, test.name].join('.'), passes ? 'PASSED' : 'FAILED');
  }
  return found;
};
