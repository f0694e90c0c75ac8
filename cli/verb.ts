/** A verb of the command line: it defines its arguments, and does its work with nothing but the context it is given. */

import type { Command } from 'commander';
import { UserInputError } from '../client/errors.ts';

export interface VerbContext {
  /** `--json` was given: the frame prints the outcome's document, and `say` is silent. */
  readonly json: boolean;
  /** A line on stdout for people. */
  readonly say: (line: string) => void;
  /** A line on stderr: progress and remarks, with `--json` too. */
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
   * Adds description, arguments and options (or subcommands) to `command`, and an action that hands its work to `run`.
   * `--json` is added by the frame.
   */
  define(command: Command, run: (work: Work) => Promise<void>): void;
}

/** A whole number off the command line. Errors: `UserInputError` that names the option, what was given, and what to give. */
export function wholeNumber(option: string, text: string, least: number, most?: number): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isSafeInteger(value) && value >= least && value <= (most ?? value)) return value;
  throw new UserInputError(
    option,
    text,
    most === undefined ? `give a whole number of at least ${least}` : `give a whole number from ${least} to ${most}`,
  );
}
