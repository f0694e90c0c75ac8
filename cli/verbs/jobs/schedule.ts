/** `longhaul schedule`: evals at set times. */

import type { Command } from 'commander';
import { parsePolicyReference } from '../../../config/policy-reference.ts';
import type { SweepConfig } from '../../../protocol/eval.ts';
import { allowEval } from '../../connect/allow-named.ts';
import { knownRuns } from '../../connect/local-store.ts';
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
  await checkEvalInputs(config);
  await allowEval(context, config);
  const known = await warnings(config, context);
  return withSchedules(context, async (schedules) => {
    await schedules.create(settings);
    const details = await schedules.show(settings.name);
    const warned = [...known, ...(details.next.length > 0 ? [] : [`the schedule never fires (${details.when})`])];
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
    '  ' +
      `${paused ? 'paused' : 'on'}${note === '' ? '' : `: ${note}`}` +
      `${paused ? ` (npx longhaul schedule resume ${name})` : ''}`,
    `  overlap ${overlap}, catches up on firings that are at most ${catchUpSeconds} s ` +
      `late${pauseOnFailure ? ', pauses when a sweep fails' : ''}`,
    `  next: ${paused ? 'none while it is paused' : next.join(', ') || 'none'}`,
    `  fired ${fired}, skipped ${skipped} while a sweep was running, missed ${missed}`,
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

/** Reports a skipped firing, since nothing else does. */
async function trigger(name: string, context: VerbContext): Promise<Outcome> {
  const { fired, sweep } = await withSchedules(context, (schedules) => schedules.trigger(name));
  const done = {
    true: `fires now: ${sweep}`,
    false: `does not fire, since ${sweep ?? 'the previous sweep'} is running (overlap SKIP)`,
    undefined:
      'was asked to fire, but the server has not reported whether it did; ' + `see: npx longhaul schedule show ${name}`,
  }[`${fired}`];
  context.say(`schedule ${name} ${done}`);
  return { document: { schedule: name, done, fired: fired ?? null, sweep: sweep ?? null } };
}

/** A run may start after its schedule, so an unknown run is a warning and not an error: its name may be misspelled. */
async function warnings({ policies }: SweepConfig, context: VerbContext): Promise<string[]> {
  const references = policies.flatMap((policy) =>
    'endpoint' in policy ? [] : [{ name: policy.policy, reference: parsePolicyReference(policy.policy) }],
  );
  const known = await knownRuns(context);
  return references.flatMap(({ name, reference }) => {
    if (!('run' in reference) || known.includes(reference.run)) return [];
    const here = known.length > 0 ? `the runs here are ${known.join(', ')}` : 'there is no run here';
    return [
      `policy ${name}: there is no run ${reference.run} now (${here}); a sweep that starts before it exists fails`,
    ];
  });
}

const NAME = ['<name>', 'name of the schedule'] as const;

function defineCreate(command: Command, run: Run): void {
  command
    .command('create')
    .description(
      "Runs the eval that CONFIG describes at set times; a policy latest:RUN is the run's newest one at that time.",
    )
    .argument('<config>', 'eval configuration, YAML')
    .option('--name <name>', 'name of the schedule; default: the name of the eval')
    .option('--cron <expression>', 'five fields: "0 6 * * *"')
    .option('--every <duration>', 'an interval instead of --cron: 6h')
    .option('--timezone <zone>', 'time zone of the cron expression, such as Europe/Berlin; default: UTC')
    .option('--jitter <duration>', 'largest random delay of a firing')
    .option('--catch-up <duration>', 'a missed firing starts late, up to this delay', '10m')
    .option('--keep-going', 'do not pause when a sweep fails')
    .option('--paused', 'start paused')
    .option('--note <text>', 'note about the schedule')
    .option(
      '--set <a.b=c>',
      'change one setting, the value in YAML; may be repeated',
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
  noted('pause', 'is paused').description('No sweep starts until it is resumed.');
  noted('resume', 'is resumed').description('Fires at its times again.');
  command
    .command('trigger')
    .description('Fires now, unless the previous sweep is still running; reports which of the two.')
    .argument(...NAME)
    .action((name: string) => run((context) => trigger(name, context)));
  command
    .command('delete')
    .description('Deletes the schedule. Running sweeps continue, and results stay.')
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
      .description('When it fires, and its last sweeps with their results.')
      .argument(...NAME)
      .action((name: string) => run((context) => show(name, context)));
    defineSteering(command, run);
    command
      .command('backfill')
      .description('Fires for every time of the schedule in a range, one sweep after the other.')
      .argument(...NAME)
      .requiredOption('--from <time>', 'start of the range, ISO 8601')
      .requiredOption('--to <time>', 'end of the range')
      .action((name: string, { from, to }: { from: string; to: string }) =>
        run((context) => backfill(name, from, to, context)),
      );
  },
};
