/**
 * Logs of JavaScript's tests in browsers, and of suites by file (SWE-bench Multilingual and Multimodal). Names are
 * written as in their lists, where the accidents of the parser that wrote those are part of a name.
 */

import { byLine, type LogParser, type Status, withoutColours } from './status.ts';

/**
 * Karma with the reporter `mocha`: `suite > test`, between the browser's start and the summary. As in the lists, a
 * heading that is further left ends one suite, and is none itself.
 */
export const karma: LogParser = (log) => {
  const found = new Map<string, Status>();
  const suites: string[] = [];
  let [indent, started] = [-1, false];
  for (const line of log.split('\n')) {
    if (line.startsWith('SUMMARY:')) break;
    if (line.includes('Starting browser')) started = true;
    else if (started) {
      const inner = line.trimStart();
      const blank = line.length - inner.length;
      const sign = inner.charAt(0);
      const isTest = (sign === '✔' || sign === '✖') && /^.\s/u.test(inner);
      // The last blank belongs to the heading, as in the lists.
      const own = inner === '' ? 0 : blank - 1;
      if (isTest) found.set([...suites, inner.slice(2)].join(' > '), sign === '✔' ? 'PASSED' : 'FAILED');
      else if (own > 0 && own !== indent) {
        if (own > indent) suites.push(inner);
        else suites.pop();
        indent = own;
      }
    }
  }
  return found;
};

/** The text after `head` of a line that ends with `FAILED`: the name of a failure, with the blank at its end. */
const failuresAfter = (heads: readonly RegExp[], tidy: (name: string) => string = (name) => name): LogParser =>
  byLine((line, found) => {
    if (!line.endsWith('FAILED')) return;
    for (const head of heads) {
      const at = head.exec(line);
      const begin = at === null ? -1 : at.index + at[0].length;
      if (begin < 0 || begin > line.length - 'FAILED'.length) continue;
      found.set(tidy(line.slice(begin, -'FAILED'.length)), 'FAILED');
      return;
    }
  });

const chrome = failuresAfter([/Chrome\s[\d.]{1,40}[^\S\n]\([^\n)]{1,80}\)[^\S\n]/u]);

/** Karma with the reporter `progress`: only failures have a line. */
export const chartJs: LogParser = (log) => chrome(withoutColours(log));

export const bpmnJs = failuresAfter([
  /2KPhantomJS\s[\d.]{1,40}\s\(Linux\s(?:[\d.]{1,40}|x86_64)\)\s/u,
  /Chrome\sHeadless\s[^\n()]{1,80}\s\(Linux\sx86_64\)\s/u,
  /HeadlessChrome\s[\d.]{1,40}\s\(Linux\s[\d.]{1,40}\)\s/u,
]);

const oneLine = (text: string): string => text.replaceAll(/\s+/gu, ' ').trim();

/**
 * Mocha's list of failures, each from its number to the line of its error, in one line. Without an error before the
 * next number, to the line that ends with a colon, which is the last of its name: a test can throw anything.
 */
function mochaFailures(log: string, error: string, name: (text: string) => string): Map<string, Status> {
  const found = new Map<string, Status>();
  const heads = [...log.matchAll(/^\s{2}\d{1,9}\)/gmu)];
  for (const [i, { index, 0: head }] of heads.entries()) {
    const text = log.slice(index + head.length, heads[i + 1]?.index);
    const at = text.indexOf(error);
    const colon = /:[^\S\n]*$/mu.exec(text)?.index ?? text.indexOf('\n') - 1;
    const own = oneLine(at >= 0 ? name(text.slice(0, at)) : text.slice(0, colon + 1));
    if (own !== '') found.set(own, 'FAILED');
  }
  return found;
}

/** The line of the error is no part of the name. */
export const eslint: LogParser = (log) =>
  mochaFailures(log, 'Error', (text) => text.slice(0, Math.max(0, text.lastIndexOf('\n'))));

const headless = failuresAfter(
  [/Chrome\sHeadless\s[\d.]{1,40}\s\(Linux\s[^\s)]{1,40}\)\s/u, /Chrome\s[\d.]{1,40}\s\(Linux\s[^\s)]{1,40}\)\s/u],
  oneLine,
);

/** OpenLayers: Karma's failures, Mocha's, and images that differ. */
export const openLayers: LogParser = (log) => {
  const found = new Map([...headless(log), ...mochaFailures(log, 'Error:', (text) => text)]);
  for (const line of log.split('\n')) {
    const at = line.startsWith('case ') ? line.lastIndexOf(': mismatch') : -1;
    if (at >= 5) found.set(oneLine(line.slice(5, at)), 'FAILED');
  }
  return found;
};

/** `PASS path/x.test.js (1.2s)`: a line a file. `named`: what of the rest is its name. */
const byFile = (named: (rest: string) => string): LogParser =>
  byLine((line, found) => {
    const [, word, rest = ''] = /^(PASS|FAIL)\s(.*)$/u.exec(line) ?? [];
    const name = word === undefined ? '' : named(rest);
    if (name !== '') found.set(name, word === 'PASS' ? 'PASSED' : 'FAILED');
  });

/** The last time is no part of a name, and neither is what follows it. Milliseconds count before seconds. */
const TIMES = [/\s\([\d.]+ms\)/gu, /\s\([\d.]+\ss\)/gu, /\s\([\d.]+s\)/gu];

function untimed(rest: string): string {
  const at = TIMES.map((time) => [...rest.matchAll(time)].at(-1)?.index).find((index) => index !== undefined);
  return rest.slice(0, at);
}

export const filesWithTimes = byFile(untimed);
export const filesWithEndTimes = byFile((rest) => rest.trim().replace(/\s\([\d.]+\s?m?s\)$/u, ''));
export const files = byFile((rest) => rest.trim());
