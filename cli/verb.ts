/** A verb of the command line: it defines its arguments, and does its work with nothing but the context it is given. */

import type { Command } from 'commander';

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
