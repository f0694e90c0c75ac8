/**
 * The log of a worker or the supervisor: one JSON object per line on stderr, written before the call returns, so that
 * no line is lost however the process ends.
 */

import { destination, type Logger, pino } from 'pino';
import { escapedJson } from '../../reports/visible.ts';

export type { Logger } from 'pino';

/** The most causes that are written with one error. */
const CAUSES = 5;
/** The limit of a message or a stack: a log is rotated by its size, and one error must not fill it. */
const MOST_CHARACTERS = 10_000;

/** Attempts to write a line to a full pipe, a tenth of a second each. */
const PIPE_TRIES = 10;
/** The limit of lines that could not be written yet. */
const MOST_KEPT_BYTES = 1024 * 1024;

const bounded = (text: string): string => (text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text);

export interface LoggedError {
  readonly class: string;
  readonly message: string;
  readonly stack?: string;
  readonly cause?: LoggedError;
}

/** Temporal carries our class name as the `type` of its own class; the original error, with its stack, is the cause. */
function unwrapped(error: Error): { readonly type: string; readonly thrown: Error } {
  const { name, message, type, cause } = error as Error & { readonly type?: unknown };
  if (name !== 'ApplicationFailure' || typeof type !== 'string') return { type: name, thrown: error };
  return { type, thrown: cause instanceof Error && cause.message.startsWith(message) ? cause : error };
}

function loggedError(error: Error, causes = CAUSES): LoggedError {
  const { type, thrown } = unwrapped(error);
  const { message, stack, cause } = thrown;
  return {
    class: type,
    message: bounded(message),
    ...(stack === undefined ? {} : { stack: bounded(stack) }),
    ...(cause instanceof Error && causes > 0 ? { cause: loggedError(cause, causes - 1) } : {}),
  };
}

/**
 * Writes to stderr at once. If nobody reads the other end of the pipe, it waits once for a second: neither that nor a
 * full disk may block a worker. Lines are then kept up to a limit, and written when there is space again.
 */
function stderrWriter(): (line: string) => void {
  let tries = PIPE_TRIES;
  const stream = destination({ dest: 2, sync: true, maxLength: MOST_KEPT_BYTES, retryEAGAIN: () => (tries -= 1) > 0 });
  stream.on('write', () => (tries = PIPE_TRIES));
  stream.on('error', () => undefined);
  return (line) => void stream.write(line);
}

/**
 * Fields of a line: `level`, `time`, `role`, `pid`, `message`; `runId` and `rolloutId` if it is about one; `error` as
 * `LoggedError`.
 */
export function openProcessLog(role: string, write: (line: string) => void = stderrWriter()): Logger {
  return pino(
    {
      level: 'info',
      base: { role, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      messageKey: 'message',
      errorKey: 'error',
      formatters: { level: (level) => ({ level }) },
      serializers: {
        message: bounded,
        error: (error: unknown) => (error instanceof Error ? loggedError(error) : error),
      },
    },
    // Without the stream's own `flushSync`: with it, a fatal error on a full disk would wait forever.
    { write: (line) => write(escapedJson(line)) },
  );
}

/**
 * A process survives a log that it cannot write, as on a full disk: what libraries print is lost until there is space
 * again. Call it once, before anything is printed.
 */
export function outliveFullLog(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
}

/** Logs an uncaught error; the process then ends with code 1, as it would without this handler. */
export function logCrashes(log: Logger): void {
  process.on('uncaughtException', (error: unknown) => {
    log.fatal(
      { error },
      `this process ends because of an uncaught error: ${error instanceof Error ? error.message : String(error)}`,
    );
    process.exit(1);
  });
}
