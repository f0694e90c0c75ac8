/** `longhaul check`: loads the tasks and data of a run or an eval here, and checks graders with known solutions. */

import { checkDefinitions } from '../../../config/algorithm/config.ts';
import { checkTasksOfRun, EVALUATED } from '../../../config/open-tasks.ts';
import { checkTasks } from '../../../config/sweep-config.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { checkGraders, type CheckedGraders } from '../../check/check-graders.ts';
import { PromptCheck, promptLines } from '../../check/check-prompts.ts';
import { openHere } from '../../check/roll-out-here.ts';
import { type CheckedSource, checkSources, type Problem } from '../../check/check-tasks.ts';
import { type CheckConfig, readCheck } from '../../check/read-check.ts';
import { askedContext } from '../../../config/policy-context.ts';
import { checkContexts } from '../../eval/check-inputs.ts';
import { checkContextHere } from '../../connect/context-here.ts';
import { modulesOf } from '../../connect/run-modules.ts';
import { barText } from '../../train/format.ts';
import { screenOn } from '../../train/follow.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';

/** Tasks of each split that are loaded, and that are rolled out. */
const LOADED = 1000;
const ROLLED_OUT = 20;
const SHOWN = 10;

interface Options {
  readonly set?: string[];
  readonly oracle?: boolean;
  readonly tasks?: string;
}

function problemLine({ source, task, label, message }: Problem): string {
  const name = task === undefined ? source : label === undefined ? task : `${task} (${label})`;
  return `${name}: ${message}`;
}

/** An eval has 200 tasks if it says nothing: that fewer were loaded than there are may be no wish of the user's. */
function fewer({ entries }: CheckConfig, source: string, tasks: number): string {
  const range = entries.find((entry) => entry.source === source)?.range;
  const { count = EVALUATED } = range ?? { count: tasks };
  return count < tasks ? ` (tasks.count is ${count})` : '';
}

function sourceLines(
  { source, environment, splits, notes = [], bad, problems }: CheckedSource,
  read: CheckConfig,
): string[] {
  const name = source === environment ? source : `${source} (${environment})`;
  const sizes = splits.map(({ split, tasks, loaded }) =>
    loaded.length === tasks
      ? `${tasks} ${split}`
      : `${loaded.length} of ${tasks} ${split}${fewer(read, source, tasks)}`,
  );
  const more = bad - problems.length;
  return [
    `${name}: ` +
      `${sizes.length === 0 ? '' : `${sizes.join(', ')} tasks loaded, `}${bad === 0 ? 'nothing wrong' : `${bad} bad`}`,
    ...notes.map((note) => `  ${note}`),
    ...problems.map((problem) => `  ${problemLine(problem)}`),
    ...(more > 0 ? [`  and ${more} more`] : []),
  ];
}

function graderLines({ policies, withoutOracle, wrong }: CheckedGraders): string[] {
  const shown = wrong.slice(0, SHOWN).map(({ task, policy, reward, failure, message }) => {
    const got = reward === null ? (failure ?? 'not graded') : `scored ${reward}`;
    return `  ${task}, ${policy}: ${got}: ${message}`;
  });
  return [
    policies
      .map(
        ({ policy, expected, rollouts, right }) =>
          `${policy}: ${right} of ${rollouts} scored ${expected}${policy === 'empty' ? ' or less' : ''}`,
      )
      .join(' · '),
    ...(withoutOracle > 0 ? [`${withoutOracle} tasks have no function oracle, which returns a gold solution`] : []),
    ...shown,
    ...(wrong.length > SHOWN ? [`  and ${wrong.length - SHOWN} more`] : []),
  ];
}

/** What no single task shows: sizes, splits and shares. Errors: `UserInputError`. */
async function checkWhole(read: CheckConfig, modules: Awaited<ReturnType<typeof modulesOf>>): Promise<void> {
  if (read.kind === 'run') {
    const { algorithm, training } = read.config;
    checkDefinitions(algorithm, training?.mode, modules?.digest);
    await checkTasksOfRun(read.config, new TaskLoader(), modules?.digest);
    await checkContextHere(askedContext(read.config), read.config.policy.base, 'policy.base');
  } else {
    await checkTasks(read.config.tasks, new TaskLoader(), modules?.digest, read.config.judges);
    await checkContexts(read.config);
  }
}

async function check(file: string, options: Options, context: VerbContext): Promise<Outcome> {
  const { say, signal, env } = context;
  const most = options.tasks === undefined ? undefined : wholeNumber('--tasks', options.tasks, 1);
  const read = await readCheck(file, options.set ?? [], context.cwd);
  const { kind, name, agent, ids } = read;
  const bundle = await modulesOf(read);
  const screen = screenOn(process.stderr);
  const loading = (source: string, n: number) => screen.bar(`loading ${source}: ${n} tasks`);
  const sources = await checkSources(read, bundle?.digest, most ?? LOADED, loading, signal).finally(() =>
    screen.bar(''),
  );
  for (const line of sources.flatMap((source) => sourceLines(source, read))) say(line);
  const bad = sources.reduce((sum, one) => sum + one.bad, 0);
  const document = {
    kind,
    name,
    modules: bundle === undefined ? null : { digest: bundle.digest, paths: bundle.paths },
    sources: sources.map(({ known, splits, ...rest }) => ({
      ...rest,
      digest: known?.digest ?? null,
      splits: splits.map(({ loaded, ...split }) => ({ ...split, loaded: loaded.length })),
    })),
  };
  if (bad > 0) return { document: { ...document, prompts: null, graders: null }, exitCode: 2 };
  await checkWhole(read, bundle);
  const prompts = await PromptCheck.open(read, bundle?.digest);
  if (options.oracle !== true && prompts === undefined)
    return { document: { ...document, prompts: null, graders: null } };
  const known = Object.fromEntries(sources.flatMap(({ source, known: one }) => (one ? [[source, one]] : [])));
  const asking = read.config.judges === undefined ? {} : { judges: read.config.judges };
  const here = await openHere(known, bundle, agent, asking, env, context.note);
  let graders: CheckedGraders | null = null;
  try {
    await prompts?.countLoaded(sources, ids, here, signal);
    const progress = (done: number, total: number) =>
      screen.bar(barText(done, total, `oracle and empty ${done}/${total} tasks`));
    if (options.oracle === true)
      graders = await checkGraders({ sources, ids, here, prompts, most: most ?? ROLLED_OUT, signal, progress });
  } finally {
    screen.bar('');
    await here.close();
  }
  const found = prompts?.found ?? null;
  for (const line of [...(found === null ? [] : promptLines(found)), ...(graders === null ? [] : graderLines(graders))])
    say(line);
  const isRight = graders === null || (graders.wrong.length === 0 && graders.withoutOracle === 0);
  const exitCode = (found?.tooLong.length ?? 0) > 0 ? 2 : isRight ? 0 : 1;
  return { document: { ...document, prompts: found, graders }, exitCode };
}

export const checkVerb: Verb = {
  define(command, run) {
    command
      .description(
        'Loads the modules, tasks and data of a run or an eval in this process, and names the first bad records. ' +
          'No stack is needed, and nothing is started.',
      )
      .argument('<config>', 'configuration of a run or an eval, YAML')
      .option('--oracle', 'roll tasks out too: gold solutions must score 1, empty ones 0 or less')
      .option(
        '--tasks <n>',
        `tasks of each split, evenly spread; default: ${LOADED}, of which --oracle rolls out ${ROLLED_OUT}`,
      )
      .option(
        '--set <a.b=c>',
        'change one setting, the value in YAML; may be repeated',
        (value: string, all: string[]) => [...all, value],
        [],
      )
      .action((file: string, options: Options) => run((context) => check(file, options, context)));
  },
};
