/** Logs of PHPUnit with `--testdox`: a heading a class, then a line a test. */

import type { LogParser, Status } from './status.ts';

const SIGNS: Readonly<Record<string, Status>> = { '✔': 'PASSED', '✘': 'FAILED', '↩': 'SKIPPED' };

/** `Class (Name\Space\Class)` is a heading: the class without what is in the last brackets. */
function headingIn(line: string): string | undefined {
  if (!line.endsWith(')') || !/^[\p{L}\p{N}_]/u.test(line)) return undefined;
  const at = line.lastIndexOf(' (', line.length - ' (x)'.length);
  return at > 1 ? line.slice(0, at) : undefined;
}

export const phpunit: LogParser = (log) => {
  const found = new Map<string, Status>();
  // A test before any heading: the lists were written by Python.
  let heading = 'None';
  for (const line of log.split('\n')) {
    const given = headingIn(line);
    const inner = line.trimStart();
    const status = SIGNS[inner.charAt(0)];
    if (given !== undefined) heading = given;
    else if (status !== undefined) found.set(`${heading} > ${inner.slice(1).trimStart()}`, status);
  }
  return found;
};
