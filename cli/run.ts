/** One call of the command line, from arguments to exit code. With `--json`, stdout always gets one document. */

import { CommanderError } from 'commander';
import { visible, visibleJson } from '../reports/visible.ts';
import { wrongStackIn } from '../connection/stack-identity.ts';
import { errorDocument, exitCodeOf } from '../client/errors.ts';
import { buildProgram, isHelp } from './program.ts';
import type { Outcome, Work } from './verb.ts';
import { VERBS, type VerbEntry } from './verbs/index.ts';

export interface CallSurroundings {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly signal: AbortSignal;
  /** For tests. */
  readonly verbs?: Readonly<Record<string, VerbEntry>>;
}

/** Returns the exit code: 0 done, 1 the job failed, 2 bad input, 3 something is not reachable, 130 interrupted. */
export async function runCommandLine(args: readonly string[], around: CallSurroundings): Promise<number> {
  let outcome: Outcome = { document: null };
  const perform = async (work: Work, json: boolean) => {
    const say = json ? () => undefined : (line: string) => around.out(`${visible(line)}\n`);
    const note = (line: string) => around.err(`${visible(line)}\n`);
    outcome = await work({ json, say, note, signal: around.signal, env: around.env, cwd: around.cwd });
    if (json) printJson(around, outcome.document);
  };
  try {
    const program = await buildProgram(args, around, perform, around.verbs);
    await program.parseAsync([...args], { from: 'user' });
    return outcome.exitCode ?? 0;
  } catch (error) {
    return report(wrongStackIn(error) ?? error, around, args);
  }
}

/** What an interrupt leaves behind. */
function interruptText({ verbs = VERBS }: CallSurroundings, args: readonly string[]): string {
  const named = args.find((arg) => Object.hasOwn(verbs, arg));
  return named !== undefined && verbs[named]?.endsHere === true
    ? `interrupted; nothing of ${named} continues`
    : 'interrupted; durable work continues';
}

function report(error: unknown, around: CallSurroundings, args: readonly string[]): number {
  const wantsJson = args.includes('--json');
  if (error instanceof CommanderError) {
    if (isHelp(error)) return 0;
    if (wantsJson) printJson(around, { error: { name: 'UserInputError', message: error.message } });
    return 2;
  }
  const interrupted = around.signal.aborted && exitCodeOf(error) === 1;
  const code = interrupted ? 130 : exitCodeOf(error);
  if (wantsJson) printJson(around, errorDocument(error));
  around.err(`longhaul: ${interrupted ? interruptText(around, args) : visible(messageOf(error, code))}\n`);
  return code;
}

function printJson(around: CallSurroundings, document: unknown): void {
  around.out(`${visibleJson(document)}\n`);
}

/** Generic names: of the language's own errors, and of errors without a class of their own. */
const NAMELESS: ReadonlySet<string> = new Set([
  'Error',
  'TypeError',
  'RangeError',
  'ReferenceError',
  'SyntaxError',
  'AggregateError',
]);

/** Unexpected errors are printed with their stack; errors with a class of their own, and of system calls, without. */
function messageOf(error: unknown, code: number): string {
  if (!(error instanceof Error)) return String(error);
  const isForeseen = code !== 1 || !NAMELESS.has(error.name) || 'syscall' in error;
  return isForeseen ? error.message : (error.stack ?? error.message);
}
