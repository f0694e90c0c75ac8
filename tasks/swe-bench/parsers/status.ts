/** The statuses of tests that a log shows. Reading a log is linear in its size, whatever it holds. */

export type Status = 'PASSED' | 'FAILED' | 'ERROR' | 'SKIPPED' | 'XFAIL';
export type StatusMap = ReadonlyMap<string, Status>;
/** Reads a log with line feeds alone. A test that it shows more than once has its last status. */
export type LogParser = (log: string) => StatusMap;

const STATUSES: readonly Status[] = ['FAILED', 'PASSED', 'SKIPPED', 'ERROR', 'XFAIL'];

export const isStatus = (word: string): word is Status => (STATUSES as readonly string[]).includes(word);
export const startsWithStatus = (line: string): boolean => STATUSES.some((status) => line.startsWith(status));
export const endsWithStatus = (line: string): boolean => STATUSES.some((status) => line.endsWith(status));

// oxlint-disable-next-line no-control-regex
const COLOURS = /\u001B(?:[@-Z\\-_]|\[[0-?]*[ -/]*[@-~])/gu;

export const withoutColours = (log: string): string => log.replaceAll(COLOURS, '');

/** As `str.split()` of Python: without empty words. */
export const wordsOf = (line: string): string[] => line.split(/\s+/u).filter((word) => word !== '');

/** A parser that looks at each line alone. */
export function byLine(read: (line: string, found: Map<string, Status>) => void): LogParser {
  return (log) => {
    const found = new Map<string, Status>();
    for (const line of log.split('\n')) read(line, found);
    return found;
  };
}
