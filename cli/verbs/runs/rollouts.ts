/** `longhaul rollouts` and `trajectory`: a run's rollouts, and one rollout turn by turn. */

import { TaskLoader } from '../../../tasks/task-loader.ts';
import type { OutcomeRecord } from '../../../protocol/records.ts';
import { FAILURES } from '../../../protocol/failure-policy.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { eventsOfRun } from '../../../reports/rollout-ends.ts';
import { trajectoryOf } from '../../../reports/trajectories.ts';
import type { RolloutFilter } from '../../../reports/read-model/queries.ts';
import { UserInputError } from '../../../client/errors.ts';
import { endedNames, isSingleRollout, rolloutNames } from '../../connect/known-names.ts';
import { didYouMean, fullName } from '../../connect/names.ts';
import { evalOf, localEval } from '../../eval/local-eval.ts';
import { knownNames, type LocalStore, withLocalStore } from '../../connect/local-store.ts';
import { rolloutPrefixes } from '../../connect/rollout-prefixes.ts';
import { table } from '../../terminal-text.ts';
import { trajectoryText } from '../../train/format.ts';
import type { Outcome, Verb, VerbContext } from '../../verb.ts';

interface Options {
  readonly step?: string;
  readonly task?: string;
  readonly source?: string;
  readonly status?: string;
  readonly failure?: string;
  readonly minReward?: string;
  readonly maxReward?: string;
  readonly since?: string;
  readonly until?: string;
}

const STATUSES = ['running', 'graded', 'failed'] as const;

/** Errors: `UserInputError` for a value that is no number. */
function numberOf(option: string, text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new UserInputError(option, text, 'give a number');
  return value;
}

/** In UTC, as events have it. Errors: `UserInputError`. */
function timeOf(option: string, text: string): string {
  const time = new Date(text);
  if (Number.isNaN(time.getTime()))
    throw new UserInputError(option, text, 'give a date or a time, such as 2026-01-31 or 2026-01-31T12:00:00Z');
  return time.toISOString();
}

/** What the options select, besides the step. `undefined` if they select nothing. Errors: `UserInputError`. */
function filterOf(options: Options): RolloutFilter | undefined {
  const { task, source, failure } = options;
  const status = STATUSES.find((name) => name === options.status);
  if (options.status !== undefined && status === undefined)
    throw new UserInputError('--status', options.status, `give one of ${STATUSES.join(', ')}`);
  const filter: RolloutFilter = {
    ...(task === undefined ? {} : { task }),
    ...(source === undefined ? {} : { source }),
    ...(failure === undefined ? {} : { failure }),
    ...(status === undefined ? {} : { status }),
    ...(options.minReward === undefined ? {} : { minReward: numberOf('--min-reward', options.minReward) }),
    ...(options.maxReward === undefined ? {} : { maxReward: numberOf('--max-reward', options.maxReward) }),
    ...(options.since === undefined ? {} : { since: timeOf('--since', options.since) }),
    ...(options.until === undefined ? {} : { until: timeOf('--until', options.until) }),
  };
  const { minReward, maxReward, since, until } = filter;
  if (minReward !== undefined && maxReward !== undefined && minReward > maxReward)
    throw new UserInputError('--min-reward', minReward, `give at most --max-reward, which is ${maxReward}`);
  if (since !== undefined && until !== undefined && since >= until)
    throw new UserInputError('--since', options.since, `give a time before --until, which is ${until}`);
  return Object.keys(filter).length === 0 ? undefined : filter;
}

/** Records of other versions may have further classes. Errors: `UserInputError` for one that there never was. */
function refuseUnknownClass(failure: string): void {
  if (Object.hasOwn(FAILURES, failure)) return;
  const classes = Object.keys(FAILURES);
  throw new UserInputError('--failure', failure, `${didYouMean(failure, classes)}give one of ${classes.join(', ')}`);
}

/** Ids of the run's rollouts that `filter` selects, whether they have ended or not. */
async function selected(
  run: string,
  prefixes: readonly string[],
  filter: RolloutFilter,
  { model }: LocalStore,
): Promise<string[]> {
  const rows = await Promise.all(prefixes.map((prefix) => model.rollouts({ ...filter, run, prefix })));
  return rows.flat().map(({ rollout }) => rollout);
}

/** The first line of the reason, cut to 60 characters. A failure's line stays whole: it contains the place. */
function reasonOf({ status, reason }: OutcomeRecord): string {
  const first = reason.split('\n')[0] ?? '';
  return status === 'failed' ? first : first.slice(0, 60);
}

function rollouts(run: string, options: Options, context: VerbContext): Promise<Outcome> {
  return withLocalStore(context, async (local) => {
    const { store } = local;
    const id = evalOf(run);
    const filter = filterOf(options);
    const { accounting } = id === undefined ? await local.summary(run) : await localEval(id, local);
    const prefixes = await rolloutPrefixes(run, options.step, local);
    const ids = filter && (await selected(run, prefixes, filter, local));
    if (options.failure !== undefined && ids?.length === 0) refuseUnknownClass(options.failure);
    const wanted = new Set(ids);
    const events = (await eventsOfRun(run, store)).filter(({ rollout }) =>
      ids === undefined ? prefixes.some((prefix) => rollout.startsWith(prefix)) : wanted.has(rollout),
    );
    const outcomes: OutcomeRecord[] = [];
    for (const id of ids ?? []) outcomes.push(...[(await store.get<OutcomeRecord>(keys.outcome(id))) ?? []].flat());
    for (const prefix of ids === undefined ? prefixes : [])
      outcomes.push(...(await store.list<OutcomeRecord>(keys.outcome(prefix))).map(({ value }) => value));
    const rows = outcomes.map((o) => [
      o.rollout,
      o.status === 'graded' ? String(o.reward) : `failed: ${o.failure ?? 'internal'}`,
      o.finish ?? '-',
      String(o.turns),
      reasonOf(o),
    ]);
    for (const line of table([['ROLLOUT', 'REWARD', 'FINISH', 'TURNS', 'REASON'], ...rows])) context.say(line);
    const plain = events.map(({ rollout, attempt, event, at, detail }) => ({
      rollout,
      attempt,
      event,
      at,
      ...(detail ? { detail } : {}),
    }));
    return { document: { run, accounting, rollouts: outcomes, events: plain } };
  });
}

/** Ended rollouts whose ids start with `given`, and all ended single rollouts. */
async function namesFor(given: string, { model }: LocalStore): Promise<string[]> {
  return [...(given === '' ? [] : await endedNames(model, given)), ...(await rolloutNames(model))];
}

/** Returns the single rollout that `given` names, in full or by a unique prefix; `undefined` for anything else. */
export async function singleRollout(given: string, context: VerbContext): Promise<string | undefined> {
  const name = fullName(given, await knownNames(context), 'RUN');
  return name !== undefined && isSingleRollout(name) ? name : undefined;
}

export async function trajectory(given: string, context: VerbContext): Promise<Outcome> {
  return withLocalStore(context, async (local) => {
    const { store } = local;
    const rollout = fullName(given, await namesFor(given, local), 'ROLLOUT') ?? given;
    const found = await trajectoryOf(rollout, { store, tasks: new TaskLoader(store) });
    if (!found) {
      const near = didYouMean(given, await rolloutNames(local.model));
      throw new UserInputError(
        'ROLLOUT',
        given,
        `${near}give the id of an ended rollout; list them with: npx longhaul rollouts RUN, or npx longhaul runs --all`,
      );
    }
    context.say(trajectoryText(found));
    return { document: found };
  });
}

export const rolloutsVerb: Verb = {
  define(command, run) {
    command
      .argument('<run>', 'name of the run, or eval/ID')
      .option('--step <n>', 'only the rollouts of this training step')
      .option('--task <key>', 'only the rollouts of this task')
      .option('--source <name>', 'only the rollouts of this entry of tasks')
      .option('--status <status>', `only those with this status: ${STATUSES.join(', ')}`)
      .option('--failure <class>', 'only those that failed with this class')
      .option('--min-reward <r>', 'only those with at least this reward')
      .option('--max-reward <r>', 'only those with at most this reward')
      .option('--since <time>', 'only those that began at this time or later')
      .option('--until <time>', 'only those that began before this time')
      .action((id: string, options: Options) => run((context) => rollouts(id, options, context)));
  },
};

export const trajectoryVerb: Verb = {
  define(command, run) {
    command
      .argument('<rollout>', 'id of the rollout; a unique prefix is enough')
      .action((id: string) => run((context) => trajectory(id, context)));
  },
};
