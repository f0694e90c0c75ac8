/** Logs of Python's `unittest` as Django runs it, and of SymPy's own runner. */

import { byLine, type LogParser, type Status } from './status.ts';

const PASSES = [' ... ok', ' ... OK', ' ...  OK'];
/** A migration's line that runs into the test's: an accident of one instance. */
const RUN_TOGETHER = 'Applying sites.0002_alter_domain_unique...test_no_migrations';

const secondWord = (line: string): string => line.split(/\s+/u)[1] ?? '';

function readDjango(whole: string, before: string | undefined, found: Map<string, Status>): string | undefined {
  let line = whole;
  if (line.includes('--version is equivalent to version')) found.set('--version is equivalent to version', 'PASSED');
  const at = line.indexOf(' ... ');
  const current = at < 0 ? before : line.slice(0, at);
  const suffix = PASSES.find((end) => line.endsWith(end));
  if (suffix !== undefined) {
    if (line.startsWith(RUN_TOGETHER)) line = line.slice(line.indexOf('...') + 3).trim();
    found.set(line.slice(0, line.lastIndexOf(suffix)), 'PASSED');
  }
  const skipped = line.indexOf(' ... skipped');
  if (skipped >= 0) found.set(line.slice(0, skipped), 'SKIPPED');
  if (line.endsWith(' ... FAIL')) found.set(line.slice(0, line.indexOf(' ... FAIL')), 'FAILED');
  if (line.startsWith('FAIL:')) found.set(secondWord(line), 'FAILED');
  if (line.endsWith(' ... ERROR')) found.set(line.slice(0, line.indexOf(' ... ERROR')), 'ERROR');
  if (line.startsWith('ERROR:')) found.set(secondWord(line), 'ERROR');
  // What the test printed is between its name and its result.
  if (line.startsWith('ok') && current !== undefined) found.set(current, 'PASSED');
  return current;
}

/** Tests whose result is lines below their name, since Django itself printed in between. */
function interrupted(log: string, found: Map<string, Status>): void {
  const lines = log.split('\n');
  let open: string | undefined;
  for (const [i, line] of lines.entries()) {
    const started =
      /^(.*?)\s\.\.\.\s(Testing against Django installed in |Internal Server Error: \/|System check)/u.exec(line);
    const isPassed = lines[i + 1] === 'ok';
    const [, name, how] = started ?? [];
    if (open === undefined && name !== undefined && how?.startsWith('Testing')) open = name;
    if (open !== undefined && line.endsWith(' silenced).') && isPassed) {
      found.set(open, 'PASSED');
      open = undefined;
    }
    if (name === undefined || !isPassed) continue;
    if (how?.startsWith('Internal') && line.endsWith('/')) found.set(name, 'PASSED');
    if (how === 'System check' && line.endsWith(' ... System check identified no issues (0 silenced)'))
      found.set(name, 'PASSED');
  }
}

export const django: LogParser = (log) => {
  const found = new Map<string, Status>();
  let before: string | undefined;
  for (const line of log.split('\n')) before = readDjango(line.trim(), before, found);
  interrupted(log, found);
  return found;
};

/** The heading of a failure: `___ path/test_x.py:test_y ___`. */
function headed(line: string): string | undefined {
  const [first, last] = [line.indexOf(' '), line.lastIndexOf(' ')];
  const colon = line.lastIndexOf('.py:', last - 4);
  return first < 0 || colon <= first || last < colon + 4
    ? undefined
    : `${line.slice(first + 1, colon)}.py:${line.slice(colon + 4, last)}`;
}

const RESULTS: ReadonlyArray<readonly [string, Status]> = [
  [' E', 'ERROR'],
  [' F', 'FAILED'],
  [' ok', 'PASSED'],
];

const sympyResults = byLine((padded, found) => {
  const line = padded.trim();
  if (!line.startsWith('test_')) return;
  for (const [end, status] of RESULTS) if (line.endsWith(end)) found.set(line.split(/\s+/u)[0] ?? '', status);
});

export const sympy: LogParser = (log) => {
  const found = new Map<string, Status>();
  for (const line of log.split('\n')) {
    const name = headed(line);
    if (name !== undefined) found.set(name, 'FAILED');
  }
  for (const [name, status] of sympyResults(log)) found.set(name, status);
  return found;
};
