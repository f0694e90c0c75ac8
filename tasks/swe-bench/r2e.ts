/** R2E-Gym's rule: the tests of the run are those that are expected, each with its expected status, failures too. */

// oxlint-disable-next-line no-control-regex
const COLOURS = /\u001B\[[0-9;?]*[A-Za-z]/gu;
const SUMMARY = 'short test summary info';

const plain = (text: string): string => text.replaceAll(COLOURS, '').replaceAll('\r', '');

/** `file::Class::test` without its file, joined by dots, and without a message. */
function nameOf(text: string): string {
  const cut = text.split(' - ')[0] ?? '';
  const parts = cut.split('::');
  return (parts.length > 1 ? parts.slice(1) : parts).join('.').trim();
}

/** The statuses in pytest's short summary. Empty if there is none. */
export function summaryIn(output: string): Map<string, string> {
  const found = new Map<string, string>();
  const log = plain(output);
  const at = log.indexOf(SUMMARY);
  if (at < 0) return found;
  for (const line of log.slice(at + SUMMARY.length).split('\n')) {
    const [, status, rest] = /^(PASSED|FAILED|ERROR)\s+(.+)$/u.exec(line.trim()) ?? [];
    if (rest !== undefined && status !== undefined) found.set(nameOf(rest), status);
  }
  return found;
}

export interface Agreement {
  readonly right: number;
  readonly expected: number;
  /** Of the run. */
  readonly found: number;
  readonly agrees: boolean;
}

export function agreementOf(output: string, expected: Readonly<Record<string, string>>): Agreement {
  const found = summaryIn(output);
  const wanted = new Map(Object.entries(expected).map(([name, status]) => [nameOf(plain(name)), status]));
  const right = [...wanted].filter(([name, status]) => found.get(name) === status).length;
  return {
    right,
    expected: wanted.size,
    found: found.size,
    agrees: wanted.size > 0 && right === wanted.size && found.size === wanted.size,
  };
}
