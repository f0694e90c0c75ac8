/** Lines of a log for people: time, level, role, message, subject and error. A line that is not JSON stays as it is. */

import type { LoggedError } from './process-log.ts';

/** A line of `openProcessLog`; it may have more fields. */
export interface LogRecord {
  readonly time: string;
  readonly level: string;
  readonly role: string;
  readonly pid: number;
  readonly message: string;
  readonly runId?: string;
  readonly rolloutId?: string;
  readonly workflowId?: string;
  readonly activity?: string;
  readonly attempt?: number;
  readonly error?: unknown;
}

/** Fields that the line shows in another form, or that only programs need. */
const SHOWN_OR_LEFT_OUT: ReadonlySet<string> = new Set(
  (
    'time level role pid message runId rolloutId activity attempt error ' +
    'workflowId workflowType workflowRunId activityId queue component durationMs'
  ).split(' '),
);

/** `undefined` for lines of native libraries, Node itself or other programs. */
export function readLogLine(line: string): LogRecord | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    const record = JSON.parse(line) as Partial<LogRecord>;
    const isOurs = [record.time, record.level, record.role, record.message].every((one) => typeof one === 'string');
    return isOurs ? (record as LogRecord) : undefined;
  } catch {
    return undefined;
  }
}

function aboutOf({ runId, rolloutId, workflowId, activity, attempt }: LogRecord): string {
  const parts = [
    rolloutId ?? (runId === undefined ? workflowId : `run ${runId}`),
    activity,
    attempt === undefined ? undefined : `attempt ${attempt}`,
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}

function othersOf(record: LogRecord): string {
  const others = Object.entries(record).filter(([name]) => !SHOWN_OR_LEFT_OUT.has(name));
  return others.length === 0 ? '' : ` ${JSON.stringify(Object.fromEntries(others))}`;
}

const isError = (error: unknown): error is LoggedError =>
  typeof error === 'object' && error !== null && 'class' in error && 'message' in error;

/** The calls of a stack trace, without the class and the message before them. */
const callsOf = (stack = ''): string[] => stack.split('\n').filter((line) => /^\s+at /.test(line));

/** The error in a line, the calls that led to it, and its causes. */
function errorLines(error: unknown): string[] {
  if (!isError(error)) return [typeof error === 'string' ? error : JSON.stringify(error)];
  const causes = error.cause === undefined ? [] : errorLines(error.cause);
  return [
    `${error.class}: ${error.message}`,
    ...callsOf(error.stack),
    ...causes.map((line, i) => (i === 0 ? `    caused by ${line}` : line)),
  ];
}

/** Several lines if there is an error. */
export function readableLine(line: string): string {
  const record = readLogLine(line);
  if (record === undefined) return line;
  const { time, level, role, message, error } = record;
  const [head = '', ...calls] = error === undefined ? [] : errorLines(error);
  // True if the line's message is the error's: then class and message are printed once.
  const isSaid = isError(error) && error.message === message;
  const first =
    `${time} ${level.toUpperCase()} ${role}: ` + `${isSaid ? head : message}${aboutOf(record)}${othersOf(record)}`;
  return [first, ...(isSaid || head === '' ? [] : [`    ${head}`]), ...calls].join('\n');
}
