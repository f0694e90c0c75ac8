/** `longhaul train`: starts a run, or attaches to it if it exists, and follows it to its end. */

import { allowRun } from '../../connect/allow-named.ts';
import { checkPlanned } from '../../train/check-inputs.ts';
import { readRunConfig } from '../../../config/read-config.ts';
import { memoryLines } from '../../train/memory-plan.ts';
import { planLines } from '../../train/plan.ts';
import { improved } from '../../train/report.ts';
import { runTrain } from '../../train/run-train.ts';
import { requireCompleted } from '../../train/run-failure.ts';
import { stackHome } from '../../../connection/stack-paths.ts';
import { JobFailed } from '../../../client/errors.ts';
import type { Outcome, Verb, VerbContext } from '../../verb.ts';

interface Options {
  readonly runId?: string;
  readonly set?: string[];
  readonly detach?: boolean;
  readonly again?: boolean;
  readonly dryRun?: boolean;
  readonly requireImprovement?: boolean;
}

async function train(file: string, options: Options, context: VerbContext): Promise<Outcome> {
  const config = await readRunConfig(file, options, context.cwd);
  if (options.dryRun === true) {
    const { tasks, unchecked } = await checkPlanned(config);
    for (const line of [
      ...planLines(config, tasks),
      ...unchecked.map((reason) => `not checked: ${reason}`),
      ...(await memoryLines(config, context.env, stackHome(context.env, context.cwd))),
    ])
      context.say(line);
    return { document: config };
  }
  const out = context.json ? process.stderr : process.stdout;
  const end = await runTrain(config, {
    detach: options.detach === true,
    again: options.again === true,
    allow: () => allowRun(context, config),
    signal: context.signal,
    out,
  });
  const { summary } = end;
  if (!summary) return { document: end };
  requireCompleted(summary);
  if (options.requireImprovement === true && !improved(summary)) {
    throw new JobFailed(`run ${end.run} completed, but its held-out pass rate did not grow`, summary);
  }
  return { document: summary };
}

export const trainVerb: Verb = {
  define(command, run) {
    command
      .description('Starts the run that CONFIG describes, or attaches to it if it exists; Ctrl-C leaves it running.')
      .argument('<config>', 'run configuration, YAML')
      .option('--run-id <id>', "name of the run; default: the configuration's, then the file's name")
      .option(
        '--set <a.b=c>',
        'change one setting, the value in YAML; may be repeated',
        (value: string, all: string[]) => [...all, value],
        [],
      )
      .option('-d, --detach', 'return when the run has started')
      .option('--again', 'resume a run that failed or was cancelled, from its records')
      .option('--dry-run', 'validate, and print the resolved plan')
      .option('--require-improvement', 'fail unless the held-out pass rate grew')
      .action((file: string, options: Options) => run((context) => train(file, options, context)));
  },
};
