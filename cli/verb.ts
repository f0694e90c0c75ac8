/** A verb of the command line: it defines its arguments, and does its work with the given context alone. */

import type { Command } from 'commander';
import { UserInputError } from '../client/errors.ts';

export interface VerbContext {
  /** True if `--json` was given: the command line prints the outcome's document, and `say` prints nothing. */
  readonly json: boolean;
  /** A line on stdout for people. */
  readonly say: (line: string) => void;
  /** A line on stderr: progress and notes, with `--json` too. */
  readonly note: (line: string) => void;
  /** Aborted at the first Ctrl-C; the verb then ends soon. */
  readonly signal: AbortSignal;
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
}

export interface Outcome {
  /** What `--json` prints. */
  readonly document: unknown;
  /** Default 0. */
  readonly exitCode?: number;
}

export type Work = (context: VerbContext) => Promise<Outcome>;

export interface Verb {
  /**
   * Adds description, arguments and options (or subcommands) to `command`, and an action that passes its work to `run`.
   * The command line adds `--json`.
   */
  define(command: Command, run: (work: Work) => Promise<void>): void;
}

/** Reads an option's whole number. Errors: `UserInputError` with the option, its value and the allowed range. */
export function wholeNumber(option: string, text: string, least: number, most?: number): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isSafeInteger(value) && value >= least && value <= (most ?? value)) return value;
  throw new UserInputError(
    option,
    text,
    most === undefined ? `give a whole number of at least ${least}` : `give a whole number from ${least} to ${most}`,
  );
}
