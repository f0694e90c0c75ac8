/** Logs of Java's builds: Maven, Ant and Gradle. */

import { byLine, type LogParser, type Status } from './status.ts';

/**
 * Maven names no test that passes. Each test is a command of its own, which the shell prints (`set -x`):
 * `-Dtest=Class#method`. The n-th `BUILD SUCCESS` or `BUILD FAILURE` is of the n-th such command, also where the output
 * of the two mixes.
 */
export const maven: LogParser = (log) => {
  const [names, results]: [string[], Status[]] = [[], []];
  for (const padded of log.split('\n')) {
    const line = padded.trim();
    const at = line.lastIndexOf('-Dtest=');
    const [name] = at < 0 ? [] : (/^\S+/u.exec(line.slice(at + '-Dtest='.length)) ?? []);
    if (name !== undefined) names.push(name);
    if (line.endsWith('BUILD SUCCESS')) results.push('PASSED');
    if (line.endsWith('BUILD FAILURE')) results.push('FAILED');
  }
  return new Map(names.flatMap((name, i) => (results[i] === undefined ? [] : [[name, results[i]] as const])));
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
