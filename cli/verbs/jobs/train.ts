/**
 * `longhaul train`: starts the stack if it is not up, starts the run or attaches to it, follows it to its end, and
 * reports. The run does not need this process: interrupting it stops nothing.
 */

import { allowRun } from '../../connect/allow-named.ts';
import { checkPlanned } from '../../train/check-inputs.ts';
import type { CheckedTasks } from '../../../config/open-tasks.ts';
import { readRunConfig } from '../../../config/read-config.ts';
import { memoryLines } from '../../train/memory-plan.ts';
import { planLines } from '../../train/plan.ts';
import { improved, reportLines } from '../../train/report.ts';
import { failureOf, requireCompleted } from '../../train/run-failure.ts';
import { stackHome } from '../../../connection/stack-paths.ts';
import { exitCodeOf, Interrupted, JobFailed } from '../../../client/errors.ts';
import type { Outcome, Verb, VerbContext } from '../../verb.ts';
import { type RunSummary, summaryOf, type TemporalPlace } from '../../../reports/run-summary.ts';
import { openReadModel } from '../../../reports/read-model/read-model.ts';
import type { Store } from '../../../store/store.ts';
import { refuseUnusableDisks, stackPlaces } from '../../../stack/disk-room.ts';
import type { RunConfig } from '../../../protocol/run-config.ts';
import { modulesOf } from '../../connect/run-modules.ts';
import { shellWord } from '../../terminal-text.ts';
import { type Stack, withStack } from '../../connect/with-stack.ts';
import type { Longhaul } from '../../../client/longhaul.ts';
import { endOf, knownRun, type TrainEnd } from '../../train/ended-run.ts';
import { followRun, type Screen, screenOn } from '../../train/follow.ts';

interface TrainOptions {
  readonly detach: boolean;
  /** True if a run that failed or was cancelled is to be resumed from its records. */
  readonly again?: boolean;
  /** Allows the workers to use what the configuration names. Called after the configuration is checked. */
  readonly allow: () => Promise<void>;
  /** Fires when the user interrupts: following ends, the run continues. */
  readonly signal: AbortSignal;
  /** Lines for people. */
  readonly out: NodeJS.WriteStream;
}

/** Follows a running run, then reports. Errors: the workflow's failure if the run never had a summary. */
export async function followed(
  config: RunConfig,
  longhaul: Longhaul,
  store: Store,
  temporal: TemporalPlace,
  screen: Screen,
  signal: AbortSignal,
) {
  const model = openReadModel(store, stackHome());
  const summary = () => summaryOf(config.run, store, temporal, model);
  const end = endOf(config, temporal);
  let final: RunSummary | undefined;
  try {
    await followRun(longhaul.client, config.run, summary, screen, signal);
    final = await summary();
  } finally {
    model.close();
  }
  if (!final) {
    const failed = (error: unknown) => {
      throw failureOf(config.run, error);
    };
    await longhaul.run(config.run).result().catch(failed);
    return end;
  }
  for (const line of await reportLines(final, end.runDir, store)) screen.line(line);
  return { ...end, summary: final };
}

async function onStack(
  config: RunConfig,
  tasks: CheckedTasks | undefined,
  { longhaul, store, temporal }: Stack,
  options: TrainOptions,
  screen: Screen,
  onStart: () => void,
): Promise<TrainEnd> {
  // The run has no recorded end. If its workflow failed or was stopped all the same, it resumes from its records.
  await longhaul.train(config, { again: true });
  onStart();
  for (const line of [...planLines(config, tasks), ...(await memoryLines(config, process.env, stackHome()))])
    screen.line(line);
  const end = endOf(config, temporal);
  if (end.ui) screen.line(`Temporal UI: ${end.ui}`);
  return options.detach ? end : await followed(config, longhaul, store, temporal, screen, options.signal);
}

/**
 * Errors: `UserInputError` for inputs that cannot be used, or a run of this name with another configuration;
 * `DiskUnusable`; `Unreachable` if the stack does not start; `RunRefused` or `JobFailed` if the run failed before it
 * started; `Interrupted`, whose message says whether the run was started.
 */
async function runTrain(config: RunConfig, options: TrainOptions): Promise<TrainEnd> {
  const screen = screenOn(options.out);
  refuseUnusableDisks([
    ...stackPlaces(stackHome()),
    { what: 'the run folder', dir: endOf(config, { address: '', namespace: '', ui: '' }).runDir },
  ]);
  const { ended, tasks } = await knownRun(config, screen, options.again);
  if (ended) return ended;
  await options.allow();
  let started = false;
  const onStart = () => {
    started = true;
  };
  try {
    return await withStack(screen, options.signal, (stack) => onStack(config, tasks, stack, options, screen, onStart));
  } catch (error) {
    if (!options.signal.aborted || exitCodeOf(error) === 2) throw error;
    const message = started
      ? `run ${config.run} continues; attach with: npx longhaul watch ${config.run}`
      : `interrupted before run ${config.run} was started. The stack may be running; stop it with: npx longhaul down`;
    throw new Interrupted(message, { cause: error });
  }
}

interface Options {
  readonly runId?: string;
  readonly set?: string[];
  readonly detach?: boolean;
  readonly again?: boolean;
  readonly dryRun?: boolean;
  readonly requireImprovement?: boolean;
}

/** Exit code 2 if one of the first prompts leaves no room for an answer. */
async function plan(file: string, config: RunConfig, context: VerbContext): Promise<Outcome> {
  // Loaded here: only a plan counts prompts.
  const { FirstPrompts, sayPrompts } = await import('../../check/first-prompts.ts');
  const first = await FirstPrompts.open();
  try {
    const { tasks, unchecked } = await checkPlanned(config, first.tasks);
    const { train: ofSteps = [], heldOut = [], sources = {} } = tasks ?? {};
    const planned = { pools: [...ofSteps, ...heldOut], ids: [], sources };
    const found = await first.count({ kind: 'run', config }, planned, config.agent, await modulesOf(config));
    for (const line of planLines(config, tasks)) context.say(line);
    const exitCode = sayPrompts(found, shellWord(file), context);
    const memory = await memoryLines(config, context.env, stackHome(context.env, context.cwd));
    for (const line of [...unchecked.map((reason) => `not checked: ${reason}`), ...memory]) context.say(line);
    return { document: config, exitCode };
  } finally {
    await first.close();
  }
}

async function train(file: string, options: Options, context: VerbContext): Promise<Outcome> {
  const config = await readRunConfig(file, options, context.cwd);
  if (options.dryRun === true) {
    return plan(file, config, context);
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
