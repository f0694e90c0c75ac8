/** `longhaul eval`: pass@k and mean reward of policies on tasks. */

import type { SweepConfig } from '../../../protocol/eval.ts';
import { allowEval } from '../../connect/allow-named.ts';
import { modulesOf } from '../../connect/run-modules.ts';
import { checkEvalInputs } from '../../eval/check-inputs.ts';
import { evalPlanLines, uncheckedLines } from '../../eval/format.ts';
import { readSweepConfig } from '../../eval/read-config.ts';
import { runEval } from '../../eval/run-eval.ts';
import { shellWord } from '../../terminal-text.ts';
import { screenOn } from '../../train/follow.ts';
import type { Outcome, Verb, VerbContext } from '../../verb.ts';

interface Options {
  readonly evalId?: string;
  readonly set?: string[];
  readonly detach?: boolean;
  readonly dryRun?: boolean;
}

/** Exit code 2 if one of the first prompts leaves no room for an answer. */
async function plan(file: string, config: SweepConfig, context: VerbContext): Promise<Outcome> {
  // Loaded here: only a plan counts prompts.
  const { FirstPrompts, sayPrompts } = await import('../../check/first-prompts.ts');
  const first = await FirstPrompts.open();
  try {
    const { settled, sources } = await checkEvalInputs(config, first.tasks);
    const { tasks, agent } = settled;
    const planned =
      'ids' in tasks ? { pools: [], ids: tasks.ids } : { pools: [{ ...tasks, source: tasks.name }], ids: [] };
    const read = { kind: 'eval', config } as const;
    const found = await first.count(read, { ...planned, sources }, agent, await modulesOf(config));
    for (const line of evalPlanLines(settled, config)) context.say(line);
    const exitCode = sayPrompts(found, shellWord(file), context);
    for (const line of uncheckedLines(config)) context.say(line);
    return { document: settled, exitCode };
  } finally {
    await first.close();
  }
}

async function evaluate(file: string, options: Options, context: VerbContext): Promise<Outcome> {
  const config = await readSweepConfig(file, options, context.cwd);
  if (options.dryRun === true) {
    return plan(file, config, context);
  }
  const screen = screenOn(context.json ? process.stderr : process.stdout);
  const again =
    'npx longhaul eval ' +
    `${[file, '--eval-id', config.eval, ...(options.set ?? []).flatMap((set) => ['--set', set])].map(shellWord).join(' ')}`;
  return {
    document: await runEval(config, {
      detach: options.detach === true,
      allow: () => allowEval(context, config),
      signal: context.signal,
      screen,
      again,
    }),
  };
}

export const evalVerb: Verb = {
  define(command, run) {
    command
      .description(
        'Runs the eval that CONFIG describes, or attaches to it if it is running; Ctrl-C leaves it running. ' +
          'An eval that ' +
          'failed or was stopped runs only what is missing.',
      )
      .argument('<config>', 'eval configuration, YAML')
      .option('--eval-id <id>', "name of the eval; default: the configuration's, then the file's name")
      .option(
        '--set <a.b=c>',
        'change one setting, the value in YAML; may be repeated',
        (value: string, all: string[]) => [...all, value],
        [],
      )
      .option('-d, --detach', 'return when the eval has started')
      .option('--dry-run', 'validate, and print the resolved plan')
      .action((file: string, options: Options) => run((context) => evaluate(file, options, context)));
  },
};
