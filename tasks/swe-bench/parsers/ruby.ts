/** Logs of Ruby's test runners: Minitest, test-unit, Cucumber, and RSpec's JSON as SWE-bench's scripts print it. */

import { byLine, type LogParser, type Status } from './status.ts';

/**
 * Minitest with `-v` and sentences as names: `Class#test_: it works.  = 0.01 s = .`, with F, E or S in place of the
 * dot.
 */
export const minitest = byLine((padded, found) => {
  const line = padded.trim();
  const isSkipped = /=\s{0,8}S$/u.test(line);
  const result = isSkipped
    ? line.length - 1
    : Math.max(line.lastIndexOf('.'), line.lastIndexOf('F'), line.lastIndexOf('E'));
  const equals = result < 1 ? -1 : line.lastIndexOf('=', result - 1);
  const end = equals < 2 ? -1 : line.lastIndexOf('. ', equals - 2);
  if (end < 1) return;
  found.set(line.slice(0, end), isSkipped ? 'SKIPPED' : line.charAt(result) === '.' ? 'PASSED' : 'FAILED');
});

/** `features/x.feature ......F`: the first row of dots ends with a dot or a failure. */
export const cucumber = byLine((padded, found) => {
  const line = padded.trim();
  const row = [...line.matchAll(/ (\.+)(F?)/gu)].findLast(
    ([, dots = '', failure]) => dots.length > 1 || failure === 'F',
  );
  if (row !== undefined) found.set(line.slice(0, row.index), row[2] === 'F' ? 'FAILED' : 'PASSED');
});

const LETTERS: Readonly<Record<string, Status>> = { '.': 'PASSED', E: 'FAILED', F: 'FAILED', O: 'SKIPPED' };

/** test-unit with `--verbose`: `test: it works:	.: (0.01)`. */
export const testUnit = byLine((padded, found) => {
  const line = padded.trim();
  const result = [...line.matchAll(/:\s+(?:(\.)|([EFO])\b)/gu)].at(-1);
  if (result === undefined) return;
  const name = line.slice(0, result.index).replace(/^test: /u, '');
  const status = LETTERS[result[1] ?? result[2] ?? ''];
  if (name !== '' && status !== undefined) found.set(name, status);
});

const OUTCOMES: ReadonlyArray<readonly [string, Status]> = [
  [' - passed', 'PASSED'],
  [' - failed', 'FAILED'],
  [' - pending', 'SKIPPED'],
];

/** `it works - passed`. */
export const rspecJson = byLine((padded, found) => {
  const line = padded.trim();
  const [at, status] = OUTCOMES.map(([text, one]) => [line.lastIndexOf(text), one] as const).reduce((a, b) =>
    b[0] > a[0] ? b : a,
  );
  if (at > 0) found.set(line.slice(0, at), status);
});

/** For a repository whose instances use one or the other runner: the log says which, by the tests that it shows. */
export const either =
  (...parsers: readonly LogParser[]): LogParser =>
  (log) =>
    parsers.map((parse) => parse(log)).reduce((most, one) => (one.size > most.size ? one : most));
