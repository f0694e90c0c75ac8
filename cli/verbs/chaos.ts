/** `longhaul chaos`: kills processes of a running job at random, and accounts for everything. */

import { resolve } from 'node:path';
import { type ChaosJob, checkJob } from '../../chaos/job.ts';
import { type ChaosReport, runChaos } from '../../chaos/run-chaos.ts';
import { UserInputError } from '../../client/errors.ts';
import { readRunConfig, readSettings } from '../../config/read-config.ts';
import { hasSandbox } from '../../tasks/environment.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import { modulesOf } from '../connect/run-modules.ts';
import { checkInputs } from '../train/check-inputs.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../verb.ts';

interface Options {
  readonly kills: string;
  readonly seed: string;
  readonly dir?: string;
  readonly set: string[];
}

const MOST_KILLS = 10_000;

const seconds = (ms: number | null) => (ms === null ? '-' : `${(ms / 1000).toFixed(1)} s`);

function printReport(
  { kills, accounting, repeated, recovery, runs, checkpoint, reference, problems }: ChaosReport,
  { say }: VerbContext,
): void {
  for (const [name, { kills: n, p50, p95, max }] of Object.entries(recovery)) {
    if (n > 0)
      say(
        `${n} kills of ${name === 'server' ? 'the server' : name === 'worker' ? 'workers' : 'others'}: ` +
          `back in ${seconds(p50)} (p95 ${seconds(p95)}, at most ${seconds(max)})`,
      );
  }
  const { dispatched, trained, masked, dropped, evaluated, lost, duplicated } = accounting;
  say(
    `rollouts: ${dispatched} dispatched = ${trained} trained + ${masked} masked + ${dropped} dropped + ` +
      `${evaluated} evaluated; ${lost} lost, ${duplicated} duplicated`,
  );
  const under = kills.reduce((sum, { underWay }) => sum + underWay.modelCalls + underWay.toolCalls, 0);
  say(
    `repeated: ${repeated.modelCalls} model calls, ${repeated.toolCalls} tool calls, ` +
      `${repeated.updates} updates (${under} calls were in flight at kills)`,
  );
  say(`disturbed  ${checkpoint}  ${runs.disturbed}`);
  say(`reference  ${reference}  ${runs.reference}`);
  for (const problem of problems) say(`failed: ${problem}`);
  if (problems.length === 0) say('identical');
}

/** Errors: `UserInputError` for a configuration that is none of a run, or of a run that cannot be compared. */
async function jobOf(file: string, set: readonly string[], cwd: string): Promise<ChaosJob> {
  if ('policies' in (await readSettings(resolve(cwd, file), set)))
    throw new UserInputError('CONFIG', file, 'give the configuration of a run: an eval trains nothing to compare');
  const config = await readRunConfig(file, { set }, cwd);
  checkJob(config);
  const { sources } = await checkInputs(config);
  const modules = (await modulesOf(config))?.digest;
  const loader = new TaskLoader();
  const first = Object.values(sources).map(async (source) => {
    const dataset = await loader.open(source, modules);
    const [split = ''] = Object.keys(dataset.splits);
    return hasSandbox(await dataset.load(split, 0));
  });
  return { config, hasSandboxes: (await Promise.all(first)).some(Boolean) };
}

async function chaos(file: string | undefined, options: Options, context: VerbContext): Promise<Outcome> {
  const { env, signal, note } = context;
  const kills = wholeNumber('--kills', options.kills, 1, MOST_KILLS);
  const seed = wholeNumber('--seed', options.seed, 0, Number.MAX_SAFE_INTEGER);
  if (file === undefined && options.set.length > 0)
    throw new UserInputError(
      '--set',
      options.set[0],
      'give a configuration too: longhaul chaos CONFIG.yaml --set a.b=c',
    );
  const job = file === undefined ? undefined : await jobOf(file, options.set, context.cwd);
  const report = await runChaos({
    kills,
    seed,
    env,
    signal,
    note,
    ...(job && { job }),
    ...(options.dir === undefined ? {} : { dir: resolve(context.cwd, options.dir) }),
  });
  printReport(report, context);
  return { document: report, exitCode: report.problems.length === 0 ? 0 : 1 };
}

export const chaosVerb: Verb = {
  define(command, run) {
    command
      .description(
        'Starts a stack of its own, kills its processes with SIGKILL while it trains, and compares weights and ' +
          'records with those of an ' +
          'undisturbed run. Fails if they differ, or if anything was lost or done twice.',
      )
      .argument('[config]', 'run configuration, YAML; default: swe-mini from the starter policy')
      .option(
        '--set <a.b=c>',
        'change one setting, the value in YAML; may be repeated',
        (value: string, all: string[]) => [...all, value],
        [],
      )
      .option('--kills <n>', 'number of kills', '12')
      .option('--seed <n>', 'seed of the plan of kills and of the run', '1')
      .option('--dir <folder>', 'folder of the stack and its runs; default: a new temporary folder')
      .action((file: string | undefined, options: Options) => run((context) => chaos(file, options, context)));
  },
};
