/**
 * The log of a worker, or of the supervisor: one JSON object a line on stderr, written before the call returns, so that no
 * line is lost however the process ends.
 */

import { destination, type Logger, pino } from 'pino';
import { escapedJson } from '../../reports/visible.ts';

export type { Logger } from 'pino';

/** Causes of one error that are written with it. */
const CAUSES = 5;
/** Of a message or a stack: a log is rotated by its size, and one error must not fill it. */
const MOST_CHARACTERS = 10_000;

/** Tries of a line that a full pipe does not take, a tenth of a second each. */
const PIPE_TRIES = 10;
/** Of lines that could not be written. */
const MOST_KEPT_BYTES = 1024 * 1024;

const bounded = (text: string): string => (text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text);

export interface LoggedError {
  readonly class: string;
  readonly message: string;
  readonly stack?: string;
  readonly cause?: LoggedError;
}

/** Temporal carries our classes as the type of its own; the error itself, with its calls, is then the cause. */
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
 * To stderr, at once. Where nobody reads the pipe's other end it waits for a second, once: workers must not stand still for
 * that, nor for a full disk. Lines of that time are kept, up to a bound, and written when there is room again.
 */
function stderrWriter(): (line: string) => void {
  let tries = PIPE_TRIES;
  const stream = destination({ dest: 2, sync: true, maxLength: MOST_KEPT_BYTES, retryEAGAIN: () => (tries -= 1) > 0 });
  stream.on('write', () => (tries = PIPE_TRIES));
  stream.on('error', () => undefined);
  return (line) => void stream.write(line);
}

/**
 * Fields of a line: `level`, `time`, `role`, `pid`, `message`; `runId` and `rolloutId` where it is about one; `error` as
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
    // Without the stream's own `flushSync`, by which a fatal error on a full disk would wait for ever.
    { write: (line) => write(escapedJson(line)) },
  );
}

/**
 * A log that cannot be written, on a full disk above all, ends no process: what libraries print is lost until there is room
 * again. To be called once, before anything is printed.
 */
export function outliveFullLog(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
}

/** What nobody has caught is a line too; the process then ends with 1, as it would without. */
export function logCrashes(log: Logger): void {
  process.on('uncaughtException', (error: unknown) => {
    log.fatal(
      { error },
      `this process ends, since nobody caught: ${error instanceof Error ? error.message : String(error)}`,
    );
    process.exit(1);
  });
}
