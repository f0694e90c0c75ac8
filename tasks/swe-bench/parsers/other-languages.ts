/** Logs of test runners of other languages: Go, JavaScript, Rust, and the Test Anything Protocol. */

import { byLine, type LogParser, type Status } from './status.ts';

const GO: Readonly<Record<string, Status>> = { PASS: 'PASSED', FAIL: 'FAILED', SKIP: 'SKIPPED' };

/** `--- FAIL: TestA/b (0.00s)`. */
export const goTest = byLine((padded, found) => {
  const line = padded.trim();
  const [, word = ''] = /^--- (PASS|FAIL|SKIP): /u.exec(line) ?? [];
  const status = GO[word];
  const end = line.lastIndexOf(' (', line.length - 4);
  if (status === undefined || !line.endsWith(')') || end <= '--- PASS: '.length) return;
  found.set(line.slice('--- PASS: '.length, end), status);
});

const SIGNS: Readonly<Record<string, Status>> = {
  '✓': 'PASSED',
  '✔': 'PASSED',
  '✕': 'FAILED',
  '×': 'FAILED',
  '○': 'SKIPPED',
  '↓': 'SKIPPED',
};

/** A name after a sign, without the time that `ending` matches after at least one character. */
const bySign = (signs: string, ending: RegExp, tidy: (name: string) => string): LogParser =>
  byLine((padded, found) => {
    const line = padded.trim();
    const status = SIGNS[line.charAt(0)];
    if (status === undefined || !signs.includes(line.charAt(0)) || !/^.\s./u.test(line)) return;
    found.set(tidy(line.slice(2).replace(ending, '')), status);
  });

export const jest = bySign('✓✕○', /(?<=.)\s\(\d+\s*m?s\)$/u, (name) => name.trim());
export const vitest = bySign('✓×↓', /(?<=.)\s(?:\d+\s*m?s?|\[skipped\])$/u, (name) => name);

/** `jest --json`, as SWE-bench prints it: names with their suites. */
export const jestJson = byLine((line, found) => {
  const [, status, name] = /^\[(PASSED|FAILED)\]\s(.+)$/u.exec(line.trim()) ?? [];
  if (name !== undefined) found.set(name, status === 'PASSED' ? 'PASSED' : 'FAILED');
});

export const tap = byLine((line, found) => {
  const [, status, name] = /^(ok|not ok) \d+ (.+)$/u.exec(line.trim()) ?? [];
  if (name !== undefined) found.set(name, status === 'ok' ? 'PASSED' : 'FAILED');
});

export const cargo = byLine((line, found) => {
  const [, name, outcome] = /^test\s+(\S+)\s+\.\.\.\s+(\w+)$/u.exec(line.trim()) ?? [];
  if (name !== undefined && outcome === 'ok') found.set(name, 'PASSED');
  if (name !== undefined && outcome === 'FAILED') found.set(name, 'FAILED');
});

const withoutTime = (name: string): string => name.replaceAll(/\(\d+ms\)/gu, '').trim();

/** Mocha's `spec` reporter: `suite.test`. What follows the summary repeats the failures, and is not read. */
export const mocha: LogParser = (log) => {
  const found = new Map<string, Status>();
  let suite: string | undefined;
  const end = log.search(/\n[ \t]*\d+ passing/u);
  for (const line of (end < 0 ? log : log.slice(0, end)).split('\n')) {
    const inner = line.trim();
    const failed = /^\d+\)(.*)$/u.exec(inner)?.[1];
    const named = (name: string): string => (suite === undefined ? withoutTime(name) : `${suite}.${withoutTime(name)}`);
    if (/^[✓✔]/u.test(inner)) found.set(named(inner.slice(1)), 'PASSED');
    else if (failed !== undefined) found.set(named(failed), 'FAILED');
    else if (line.startsWith('  ')) suite = inner;
  }
  return found;
};

/** Jasmine as `marked` runs it: only failures have a line. */
export const marked = byLine((line, found) => {
  const [, name] = /^\d+\)\s(.*)/u.exec(line) ?? [];
  if (name !== undefined) found.set(name.trim(), 'FAILED');
});
