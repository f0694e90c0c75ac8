/** The command line's grammar: verbs, options and help. Each of its errors is bad input. */

import { Command, CommanderError } from 'commander';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import type { Verb, Work } from './verb.ts';
import { VERBS, type VerbEntry } from './verbs/index.ts';

export interface ProgramOutput {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

/** Loads the modules of the verbs that `args` names, and only those. */
export async function buildProgram(
  args: readonly string[],
  output: ProgramOutput,
  perform: (work: Work, json: boolean) => Promise<void>,
  verbs: Readonly<Record<string, VerbEntry>> = VERBS,
): Promise<Command> {
  const program = new Command('longhaul')
    .description('Durable reinforcement learning for long-horizon agents.')
    .version(version())
    .exitOverride()
    .showHelpAfterError('Run longhaul --help, or longhaul VERB --help, for all arguments and options.')
    .configureOutput({ writeOut: output.out, writeErr: output.err });
  const named = new Set(args.filter((arg) => !arg.startsWith('-')).slice(0, 2));
  for (const [name, entry] of Object.entries(verbs)) {
    const command = program.command(name).summary(entry.summary).description(entry.summary);
    if (named.has(name)) defineVerb(await entry.load(), command, perform);
  }
  return program;
}

/** True if commander ended because of `--help` or `--version`. All its other errors are bad input. */
export function isHelp(error: CommanderError): boolean {
  return (
    ['commander.helpDisplayed', 'commander.help', 'commander.version'].includes(error.code) && error.exitCode === 0
  );
}

function defineVerb(verb: Verb, command: Command, perform: (work: Work, json: boolean) => Promise<void>): void {
  let called = command;
  command.hook('preAction', (_command, action) => {
    called = action;
  });
  verb.define(command, (work) => perform(work, called.opts<{ json?: boolean }>().json === true));
  for (const leaf of leaves(command))
    leaf.option('--json', 'print one JSON document on stdout, and nothing else there');
}

function leaves(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap((one) => leaves(one));
}

function version(): string {
  return (JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string }).version;
}
