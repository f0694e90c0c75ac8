/**
 * Logs of Mocha's JSON reports: Prism, Cypress, and Lighthouse before 3.0 (SWE-bench Multimodal). A log has a report
 * for each command. Titles are those of suite and test in one.
 */

import type { LogParser, Status } from './status.ts';

const PRISM = './node_modules/.bin/mocha tests/run.js --reporter json';
const LIGHTHOUSE = './node_modules/.bin/mocha --reporter json';

/** The text after the last `head`; all of it if there is none. */
const afterLast = (text: string, head: string): string => {
  const at = text.lastIndexOf(head);
  return at < 0 ? text : text.slice(at + head.length);
};

/** The text before the last `end`; all of it if there is none. */
const beforeLast = (text: string, end: string): string => {
  const at = text.lastIndexOf(end);
  return at < 0 ? text : text.slice(0, at);
};

/** The values of `"fullTitle": "…",` at the ends of lines, as they are written: a report need not be whole JSON. */
function titlesIn(text: string): string[] {
  const found: string[] = [];
  let [line, end] = [-1, -1];
  for (const { index, 0: head } of text.matchAll(/"fullTitle":\s"/gu)) {
    const begin = index + head.length;
    if (index < end) continue;
    if (line < begin) line = text.indexOf('\n', begin);
    if (line < 0) break;
    if (line - 2 < begin || !text.startsWith('",', line - 2)) continue;
    found.push(text.slice(begin, line - 2));
    end = line;
  }
  return found;
}

interface Sections {
  readonly passes: readonly [head: string, end: string];
  readonly failures: readonly [head: string, end: string];
}

/** Without a section's head, the whole of the report is read, as for the lists. */
function titles(reports: readonly string[], { passes, failures }: Sections): Map<string, Status> {
  const found = new Map<string, Status>();
  for (const report of reports) {
    for (const title of titlesIn(beforeLast(afterLast(report, passes[0]), passes[1]))) found.set(title, 'PASSED');
    for (const title of titlesIn(beforeLast(afterLast(report, failures[0]), failures[1]))) found.set(title, 'FAILED');
  }
  return found;
}

/** What follows the last report's folder is none. */
export const cypress: LogParser = (log) =>
  titles(log.split('../..').slice(0, -1), { passes: ['  "passes": [', '  }'], failures: ['  "failures": [', '  ],'] });

export const lighthouseJson: LogParser = (log) =>
  titles(log.split(LIGHTHOUSE).slice(1), { passes: ['"passes": [', ']'], failures: ['"failures": [', '],'] });

const listOf = (report: unknown, name: string): unknown[] | undefined => {
  if (typeof report !== 'object' || report === null) return undefined;
  const list: unknown = Object.entries(report).find(([key]) => key === name)?.[1];
  return Array.isArray(list) ? list : undefined;
};

const titleOf = (test: unknown): string | undefined => {
  if (typeof test !== 'object' || test === null || !('fullTitle' in test)) return undefined;
  return typeof test.fullTitle === 'string' ? test.fullTitle : undefined;
};

/** From the first brace to the last. */
function jsonOf(text: string): unknown {
  const begin = text.indexOf('{');
  try {
    return JSON.parse(`{${beforeLast(text.slice(begin + 1), '}')}}`);
  } catch {
    return undefined;
  }
}

/** A report after each command that the shell prints. One that is cut off shows no test, and neither does the rest. */
export const prism: LogParser = (log) => {
  const found = new Map<string, Status>();
  for (const text of log.split(PRISM).slice(1)) {
    const report = jsonOf(text);
    const [failures, passes] = [listOf(report, 'failures'), listOf(report, 'passes')];
    if (failures === undefined || passes === undefined) return new Map();
    for (const [tests, status] of [[failures, 'FAILED'] as const, [passes, 'PASSED'] as const]) {
      for (const title of tests.map(titleOf)) if (title !== undefined) found.set(title, status);
    }
  }
  return found;
};
