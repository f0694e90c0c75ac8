/**
 * Hunts commands in the documentation that the command line would refuse: by its own grammar, without doing what they
 * say. Not asserted: what a command prints, and words such as RUN that stand for something.
 */
import { CommanderError } from 'commander';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { buildProgram, isHelp } from '../../cli/program.ts';
import { VERBS } from '../../cli/verbs/index.ts';
import { documents, fences, inlineCode, root } from './markdown.ts';
import { type ShellCommand, shellCommands } from './shell.ts';

const silent = { out: () => undefined, err: () => undefined };

/** What is wrong with the arguments of `longhaul`; `undefined` when nothing is. */
async function refusal(args: readonly string[]): Promise<string | undefined> {
  const program = await buildProgram(args, silent, async () => undefined);
  try {
    await program.parseAsync([...args], { from: 'user' });
    return undefined;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return isHelp(error) ? undefined : error.message;
  }
}

/** The options of a verb and of its subcommands. */
async function optionsOf(verb: string): Promise<Set<string>> {
  const program = await buildProgram([verb], silent, async () => undefined);
  const command = program.commands.find((one) => one.name() === verb);
  const commands = [...(command ? [command] : []), ...(command?.commands ?? [])];
  return new Set(commands.flatMap((one) => one.options.map(({ long }) => long ?? '')));
}

/** The arguments of `longhaul` in a command; behind a pipe a verb alone says the same (`runs | show RUN`). */
function argumentsOf({ words: [first = '', second, ...rest] }: ShellCommand): readonly string[] | undefined {
  if (first === 'npx' && second === 'longhaul') return rest;
  // The shell's own word, not the verb.
  if (first === 'export' && second?.includes('=')) return undefined;
  return first in VERBS ? [first, ...(second === undefined ? [] : [second]), ...rest] : undefined;
}

const inline = documents().flatMap((document) =>
  inlineCode(document).filter(({ text }) => text.startsWith('npx longhaul ')),
);
const snippets = documents().flatMap((document) =>
  ['sh', 'bash', 'shell', 'console'].flatMap((language) => fences(document, language)),
);
const commands = [...snippets, ...inline].flatMap(shellCommands);
const calls = commands.flatMap((command) => {
  const args = argumentsOf(command);
  return args ? [{ ...command, args, text: args.join(' '), where: `${command.file}:${command.line}` }] : [];
});

describe('the documentation', () => {
  it('has commands at all', () => {
    expect(calls.length).toBeGreaterThan(10);
  });

  it.each(calls)('$where: longhaul $text', async ({ args, comment }) => {
    expect(await refusal(args)).toBeUndefined();
    const options = await optionsOf(args[0] ?? '');
    const named = comment.match(/--[a-z][a-z-]*/g) ?? [];
    expect(named.filter((option) => !options.has(option))).toEqual([]);
  });

  it('names scripts of npm that exist', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    const named = commands.flatMap(({ words: [npm, verb = '', script = ''] }) =>
      npm !== 'npm' ? [] : verb === 'run' ? [script] : verb === 'test' ? ['test'] : [],
    );
    expect(named.length).toBeGreaterThan(1);
    expect(named.filter((script) => !(script in scripts))).toEqual([]);
  });
});

describe('the check itself', () => {
  it.each([['nope'], ['train'], ['train a.yaml --nope'], ['train a.yaml b.yaml'], ['bench nope'], ['show']])(
    'refuses longhaul %s',
    async (line) => {
      expect(await refusal(line.split(' '))).toMatch(/error/);
    },
  );

  it.each([['train a.yaml --set a.b=c --detach'], ['bench orchestration --json'], ['show RUN']])(
    'accepts longhaul %s',
    async (line) => {
      expect(await refusal(line.split(' '))).toBeUndefined();
    },
  );

  it('reads shell as shells do', () => {
    const text =
      'A=b npx longhaul train \'my file.yaml\' \\\n  --set a="x y"  # says --detach\n$ npx longhaul runs | show RUN > file; ls # no';
    expect(
      shellCommands({ file: 'f', line: 3, text }).map(({ line, words, comment }) => [line, words, comment]),
    ).toEqual([
      [3, ['npx', 'longhaul', 'train', 'my file.yaml', '--set', 'a=x y'], 'says --detach'],
      [4, ['npx', 'longhaul', 'runs'], 'no'],
      [4, ['show', 'RUN'], ''],
      [4, ['file'], ''],
      [4, ['ls'], ''],
    ]);
  });
});
