/** Logs of Java's builds: Maven, Ant and Gradle. */

import { byLine, type LogParser, type Status } from './status.ts';

/**
 * Maven names no test that passes. Each test is a command of its own, which the shell prints (`set -x`):
 * `-Dtest=Class#method`. A `BUILD SUCCESS` or `BUILD FAILURE` is of the first such command that has none yet. Where
 * there is none, another build ended, or the command is printed late: such results are of the commands left at the end.
 */
export const maven: LogParser = (log) => {
  const found = new Map<string, Status>();
  const [waiting, early]: [string[], Status[]] = [[], []];
  let next = 0;
  const end = (status: Status): void => {
    const name = waiting[next];
    if (name === undefined) early.push(status);
    else found.set(name, status);
    if (name !== undefined) next += 1;
  };
  for (const padded of log.split('\n')) {
    const line = padded.trim();
    const at = line.lastIndexOf('-Dtest=');
    const [name] = at < 0 ? [] : (/^\S+/u.exec(line.slice(at + '-Dtest='.length)) ?? []);
    if (name !== undefined) waiting.push(name);
    if (line.endsWith('BUILD SUCCESS')) end('PASSED');
    if (line.endsWith('BUILD FAILURE')) end('FAILED');
  }
  for (const [i, name] of waiting.slice(next).entries()) {
    const status = early[i];
    if (status !== undefined) found.set(name, status);
  }
  return found;
};

/** `[junit] [PASS] NAME`. */
export const ant = byLine((line, found) => {
  const [, word, name] = /^\[junit\]\s+\[(PASS|FAIL|ERR)\]\s+(\S.*)$/u.exec(line.trim()) ?? [];
  if (name !== undefined) found.set(name, word === 'PASS' ? 'PASSED' : 'FAILED');
});

const ENDS: ReadonlyArray<readonly [string, Status]> = [
  ['PASSED', 'PASSED'],
  ['FAILED', 'FAILED'],
];

/**
 * `Class > method PASSED`. What other processes print may part the name from its result, which is then a line alone.
 */
export const gradle: LogParser = (log) => {
  const found = new Map<string, Status>();
  let open: string | undefined;
  for (const padded of log.split('\n')) {
    const line = padded.trim();
    const [word = '', status] = ENDS.find(([end]) => line.endsWith(end)) ?? [];
    const name = line.slice(0, -word.length - 1);
    if (status !== undefined && name.length > 1 && !line.startsWith('>') && /\s$/u.test(line.slice(0, -word.length))) {
      found.set(name, status);
      open = undefined;
    } else if (/^[^>]\S*\s+>\s+\S+$/u.test(line)) open = line;
    else if (open !== undefined && line === word && status !== undefined) {
      found.set(open, status);
      open = undefined;
    }
  }
  return found;
};
