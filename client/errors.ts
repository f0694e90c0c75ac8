/** The errors of failed verbs: the class decides the exit code, the fields say what to do. */

export { UserInputError } from '../protocol/user-input-error.ts';
export { Unreachable } from '../connection/unreachable.ts';
export { WrongStack } from '../connection/stack-identity.ts';

/** The job ran and failed; `details` go into the JSON document. */
export class JobFailed extends Error {
  override readonly name = 'JobFailed';
  readonly details: unknown;

  constructor(message: string, details?: unknown, options?: ErrorOptions) {
    super(message, options);
    this.details = details;
  }
}

/** The user interrupted; the message says what continues to run and how to attach to it. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

/** A run that its workers refused before it started: the cause says what the user got wrong. */
export class RunRefused extends Error {
  override readonly name = 'RunRefused';
}

/** Exit codes by class; 1 for a failed job and for any other error. */
const EXIT_CODES: Readonly<Record<string, number>> = {
  UserInputError: 2,
  BadRecord: 2,
  RunRefused: 2,
  Unreachable: 3,
  WrongStack: 3,
  MissingPrerequisites: 3,
  NotSetUp: 3,
  ModelUnavailable: 3,
  DataUnavailable: 3,
  DiskUnusable: 3,
  StoreFull: 3,
  StoreReadOnly: 3,
  StoreBusy: 3,
  StoreCorrupt: 3,
  StoreFormatUnknown: 3,
  JobFailed: 1,
  Interrupted: 130,
};

/**
 * By the name of the error or of one of its causes: errors come from every layer, and through Temporal, which keeps
 * only the name of a class (as `type`).
 */
export function exitCodeOf(error: unknown): number {
  for (
    let current: unknown = error, depth = 0;
    current instanceof Error && depth < 8;
    current = current.cause, depth += 1
  ) {
    const type = 'type' in current && typeof current.type === 'string' ? current.type : '';
    const code = EXIT_CODES[current.name] ?? EXIT_CODES[type];
    if (code !== undefined) return code;
  }
  return 1;
}

/** An error as the JSON document of a failed verb: name, message and its own fields. */
export function errorDocument(error: unknown): { error: Record<string, unknown> } {
  if (!(error instanceof Error)) return { error: { name: 'Error', message: String(error) } };
  const { name, message, stack: _stack, cause: _cause, ...fields } = error as Error & Record<string, unknown>;
  return { error: { ...fields, name, message } };
}
