/** `longhaul schedule`: evals by the clock. */

import type { Command } from 'commander';
import { parsePolicyReference } from '../../../config/policy-reference.ts';
import type { SweepConfig } from '../../../protocol/eval.ts';
import { allowEval } from '../../connect/allow-named.ts';
import { knownRuns } from '../../connect/local-store.ts';
import { loadModules } from '../../connect/own-modules.ts';
import { withLonghaul } from '../../connect/with-run.ts';
import { UserInputError } from '../../../client/errors.ts';
import { checkEvalInputs } from '../../eval/check-inputs.ts';
import { estimateText } from '../../eval/format.ts';
import { readSweepConfig } from '../../eval/read-config.ts';
import {
  checkSettings,
  EvalSchedules,
  type ScheduleDetails,
  type ScheduledSweep,
  type ScheduleSettings,
} from '../../eval/eval-schedules.ts';
import { table } from '../../terminal-text.ts';
import type { Outcome, Verb, VerbContext, Work } from '../../verb.ts';

type Run = (work: Work) => Promise<void>;

interface CreateOptions extends Omit<ScheduleSettings, 'name' | 'config' | 'pauseOnFailure'> {
  readonly name?: string;
  readonly set?: string[];
  readonly keepGoing?: boolean;
}

function withSchedules<T>(context: VerbContext, body: (schedules: EvalSchedules) => Promise<T>): Promise<T> {
  return withLonghaul(context, ({ client }) => body(new EvalSchedules(client)));
}

async function create(file: string, given: CreateOptions, context: VerbContext): Promise<Outcome> {
  const { name, set, keepGoing = false, ...timing } = given;
  const config = await readSweepConfig(file, set === undefined ? {} : { set }, context.cwd);
  const settings: ScheduleSettings = { ...timing, name: name ?? config.eval, config, pauseOnFailure: !keepGoing };
  checkSettings(settings);
  await loadModules(context);
  await checkEvalInputs(config);
  await allowEval(context, config);
  const known = await warnings(config, context);
  return withSchedules(context, async (schedules) => {
    await schedules.create(settings);
    const details = await schedules.show(settings.name);
    const warned = [
      ...known,
      ...(details.next.length > 0 ? [] : [`there is no time at which it fires (${details.when})`]),
    ];
    for (const warning of warned) context.note(`warning: ${warning}`);
    for (const line of detailLines(details)) context.say(line);
    return { document: { ...details, warnings: warned } };
  });
}

function sweepLine({ workflowId, scheduledAt, status, message, result }: ScheduledSweep): string[] {
  const cells = result?.cells.map(
    ({ cell, passAt }) =>
      `${cell} ${Object.entries(passAt)
        .map(([k, estimate]) => `pass@${k} ${estimateText(estimate)}`)
        .join(', ')}`,
  );
  return [scheduledAt, status, cells?.join(' · ') ?? message ?? '', workflowId];
}

function detailLines(details: ScheduleDetails): string[] {
  const { name, when, paused, note, next, overlap, catchUpSeconds, pauseOnFailure, fired, skipped, missed, recent } =
    details;
  return [
    `schedule ${name}: ${when}`,
    `  ${paused ? 'paused' : 'on'}${note === '' ? '' : `: ${note}`}${paused ? ` (npx longhaul schedule resume ${name})` : ''}`,
    `  overlap ${overlap}, makes up for what is at most ${catchUpSeconds} s late${pauseOnFailure ? ', pauses when a sweep fails' : ''}`,
    `  next: ${paused ? 'none while it is paused' : next.join(', ') || 'none'}`,
    `  fired ${fired}, skipped ${skipped} while one went on, missed ${missed}`,
    ...table(recent.map(sweepLine)).map((line) => `  ${line}`),
  ];
}

async function list(context: VerbContext): Promise<Outcome> {
  const views = await withSchedules(context, (schedules) => schedules.list());
  const rows = views.map(({ name, when, paused, next, note }) => [
    name,
    when,
    paused ? 'paused' : 'on',
    paused ? '-' : (next[0] ?? '-'),
    note,
  ]);
  for (const line of table([['NAME', 'WHEN', 'STATE', 'NEXT', 'NOTE'], ...rows])) context.say(line);
  return { document: views };
}

async function show(name: string, context: VerbContext): Promise<Outcome> {
  const details = await withSchedules(context, (schedules) => schedules.show(name));
  for (const line of detailLines(details)) context.say(line);
  return { document: details };
}

function time(option: string, text: string): Date {
  const at = new Date(text);
  if (!Number.isNaN(at.getTime())) return at;
  throw new UserInputError(option, text, 'give a time such as 2026-01-31T06:00:00Z');
}

async function backfill(name: string, from: string, to: string, context: VerbContext): Promise<Outcome> {
  const [start, end] = [time('--from', from), time('--to', to)];
  if (start >= end) throw new UserInputError('--to', to, `give a time after --from (${from})`);
  return acted(name, `fires for its times from ${start.toISOString()} to ${end.toISOString()}`, context, (schedules) =>
    schedules.backfill(name, start, end),
  );
}

async function acted(
  name: string,
  done: string,
  context: VerbContext,
  act: (schedules: EvalSchedules) => Promise<void>,
): Promise<Outcome> {
  await withSchedules(context, act);
  context.say(`schedule ${name} ${done}`);
  return { document: { schedule: name, done } };
}

/** Of a firing that was left out because of another one, nobody hears otherwise. */
async function trigger(name: string, context: VerbContext): Promise<Outcome> {
  const { fired, sweep } = await withSchedules(context, (schedules) => schedules.trigger(name));
  const done = {
    true: `fires now: ${sweep}`,
    false: `does not fire, since ${sweep ?? 'the sweep before'} goes on (overlap SKIP)`,
    undefined: `was asked to fire, and the server has not said what came of it; see: npx longhaul schedule show ${name}`,
  }[`${fired}`];
  context.say(`schedule ${name} ${done}`);
  return { document: { schedule: name, done, fired: fired ?? null, sweep: sweep ?? null } };
}

/** A run may begin after its schedule, so that a name which leads to none now is no error: but it may be mistyped. */
async function warnings({ policies }: SweepConfig, context: VerbContext): Promise<string[]> {
  const references = policies.flatMap((policy) =>
    'endpoint' in policy ? [] : [{ name: policy.policy, reference: parsePolicyReference(policy.policy) }],
  );
  const known = await knownRuns(context);
  return references.flatMap(({ name, reference }) => {
    if (!('run' in reference) || known.includes(reference.run)) return [];
    const here = known.length > 0 ? `the runs here are ${known.join(', ')}` : 'there is no run here';
    return [
      `policy ${name}: there is no run ${reference.run} now (${here}); a sweep that fires before there is one fails`,
    ];
  });
}

const NAME = ['<name>', 'name of the schedule'] as const;

function defineCreate(command: Command, run: Run): void {
  command
    .command('create')
    .description(
      'Evaluates by the clock what CONFIG describes; a policy latest:RUN is what the run has published by then.',
    )
    .argument('<config>', 'eval configuration, YAML')
    .option('--name <name>', 'name of the schedule; default: that of the eval')
    .option('--cron <expression>', 'five fields: "0 6 * * *"')
    .option('--every <duration>', 'an interval instead: 6h')
    .option('--timezone <zone>', 'of the cron expression: Europe/Berlin; default: UTC')
    .option('--jitter <duration>', 'fire up to so much later')
    .option('--catch-up <duration>', 'how late a firing may be made up for', '10m')
    .option('--keep-going', 'do not pause when a sweep fails')
    .option('--paused', 'begin paused')
    .option('--note <text>', 'why it is as it is')
    .option(
      '--set <a.b=c>',
      'change one setting, the value in YAML; may be given often',
      (value: string, all: string[]) => [...all, value],
      [],
    )
    .action((file: string, options: CreateOptions) => run((context) => create(file, options, context)));
}

function defineSteering(command: Command, run: Run): void {
  const noted = (verb: 'pause' | 'resume', done: string) =>
    command
      .command(verb)
      .argument(...NAME)
      .option('--note <text>', 'why', `${verb}d from the command line`)
      .action((name: string, { note }: { note: string }) =>
        run((context) => acted(name, done, context, (schedules) => schedules[verb](name, note))),
      );
  noted('pause', 'is paused').description('No sweep begins until it is resumed.');
  noted('resume', 'goes on').description('Fires again by the clock.');
  command
    .command('trigger')
    .description('Fires now, unless the sweep before goes on: says which of the two.')
    .argument(...NAME)
    .action((name: string) => run((context) => trigger(name, context)));
  command
    .command('delete')
    .description('Fires no more; what it has fired goes on, and its results stay.')
    .argument(...NAME)
    .action((name: string) =>
      run((context) => acted(name, 'is deleted', context, (schedules) => schedules.delete(name))),
    );
}

export const scheduleVerb: Verb = {
  define(command, run) {
    defineCreate(command, run);
    command
      .command('list')
      .description('The schedules, and when each fires next.')
      .action(() => run(list));
    command
      .command('show')
      .description('When it fires, what it did last, and what came of it.')
      .argument(...NAME)
      .action((name: string) => run((context) => show(name, context)));
    defineSteering(command, run);
    command
      .command('backfill')
      .description('Fires for every time of the schedule in a range, one sweep after the other.')
      .argument(...NAME)
      .requiredOption('--from <time>', 'the first, ISO 8601')
      .requiredOption('--to <time>', 'the last')
      .action((name: string, { from, to }: { from: string; to: string }) =>
        run((context) => backfill(name, from, to, context)),
      );
  },
};
