/**
 * `longhaul rescore`: grades the recorded rollouts of a run or an eval again, by today's graders, without inference.
 */

import { availableParallelism } from 'node:os';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Estimate } from '../../../protocol/eval.ts';
import type { OutcomeRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { refusePrunedTurns } from '../../../reports/export/exported-rollout.ts';
import { readSandboxSettings } from '../../../workers/settings.ts';
import { openSandboxProvider } from '../../../workers/sandbox-provider.ts';
import { EndpointClient } from '../../../endpoints/endpoint-client.ts';
import { Interrupted, UserInputError } from '../../../client/errors.ts';
import { lazily } from '../../check/roll-out-here.ts';
import { rolloutPrefixes } from '../../connect/rollout-prefixes.ts';
import { evalOf, localEval } from '../../eval/local-eval.ts';
import { type LocalStore, withLocalStore } from '../../connect/local-store.ts';
import { type AgainDeps, type Grade, gradeAgain, type Regraded } from '../../rescore/grade-again.ts';
import { openSecondGrading, type SecondGrading, WHICH_MODULES, type WhichModules } from '../../rescore/open-again.ts';
import { rescored, type Rescored } from '../../rescore/rescored.ts';
import { table } from '../../terminal-text.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';

interface Options {
  readonly step?: string;
  readonly task?: string;
  readonly modules?: string;
  readonly as?: string;
  readonly concurrency?: string;
}

const NAME = /^[a-z](?:[a-z-]{0,30}[a-z])?$/u;
/** Rows that people are shown. */
const SHOWN = 50;
const SAY_EVERY = 20;

/** Errors: `UserInputError` for a run, a step or a task that has no ended rollouts. */
async function chosen(run: string, { step, task }: Options, local: LocalStore): Promise<OutcomeRecord[]> {
  const id = evalOf(run);
  await (id === undefined ? local.summary(run) : localEval(id, local));
  const prefixes = await rolloutPrefixes(run, step, local);
  const lists = await Promise.all(prefixes.map((prefix) => local.store.list<OutcomeRecord>(keys.outcome(prefix))));
  const all = lists.flat().map(({ value }) => value);
  const some = task === undefined ? all : all.filter((outcome) => outcome.task === task);
  if (some.length > 0) return some;
  if (all.length === 0) throw new UserInputError('RUN', run, 'it has no ended rollouts yet');
  throw new UserInputError('--task', task, `give a task of it, such as ${all[0]?.task ?? ''}`);
}

function modulesOf({ modules = 'today' }: Options): WhichModules {
  const which = WHICH_MODULES.find((name) => name === modules);
  if (which === undefined) throw new UserInputError('--modules', modules, `give one of ${WHICH_MODULES.join(', ')}`);
  return which;
}

/**
 * In the order of `outcomes`. At most `width` at once. Errors: those of `work`, after the others under way have ended.
 */
async function eachOf<T>(
  outcomes: readonly OutcomeRecord[],
  width: number,
  work: (outcome: OutcomeRecord) => Promise<T>,
  done: (count: number) => void,
): Promise<T[]> {
  const results: T[] = [];
  let [next, ended] = [0, 0];
  const take = async (): Promise<void> => {
    for (let i = next; i < outcomes.length; i = next) {
      next += 1;
      const outcome = outcomes[i];
      if (outcome !== undefined) results[i] = await work(outcome);
      ended += 1;
      done(ended);
    }
  };
  const takers = await Promise.allSettled(Array.from({ length: Math.min(width, outcomes.length) }, take));
  for (const taker of takers) if (taker.status === 'rejected') throw taker.reason;
  return results;
}

/** Grades all, with sandboxes of this process that end with it. */
async function grade(
  of: string,
  outcomes: readonly OutcomeRecord[],
  second: SecondGrading,
  width: number,
  { store }: LocalStore,
  { env, note, signal }: VerbContext,
): Promise<Regraded[]> {
  const dir = await mkdtemp(join(tmpdir(), 'longhaul-rescore-'));
  const { provider, opened } = lazily(() =>
    openSandboxProvider({ sandboxDir: join(dir, 'sandboxes'), sandbox: readSandboxSettings(env), say: note }),
  );
  const { name, tasks, catalog, judges } = second;
  const deps: AgainDeps = {
    store,
    tasks,
    provider,
    host: `rescore-${process.pid}`,
    endpoints: new EndpointClient(env),
    name,
    of,
    catalogOf: () => catalog,
    asking: judges === undefined ? {} : { judges },
  };
  let graded = 0;
  try {
    return await eachOf(
      outcomes,
      width,
      (outcome) => {
        signal.throwIfAborted();
        return gradeAgain(outcome, deps, signal);
      },
      (count) => {
        graded = count;
        if (count % SAY_EVERY === 0 && count < outcomes.length) note(`${count} of ${outcomes.length} rollouts`);
      },
    );
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new Interrupted(
      `interrupted after ${graded} of ${outcomes.length} rollouts. The same command grades the rest`,
      { cause: error },
    );
  } finally {
    const real = await opened()?.catch(() => undefined);
    await real?.sweep(() => false).catch(() => undefined);
    await rm(dir, { recursive: true, force: true });
  }
}

const gradeText = (grade: Grade | null): string => (grade === null ? '-' : `${grade.reward}`);
const share = (value: Estimate | null): string =>
  value === null ? '-' : `${value.mean.toFixed(3)} (${value.low.toFixed(3)} to ${value.high.toFixed(3)})`;
const firstLine = (text: string): string => (text.split('\n')[0] ?? '').slice(0, 80);

function show(rows: readonly Regraded[], report: Rescored, second: SecondGrading, { say }: VerbContext): void {
  const other = rows.filter(({ status }) => status !== 'same');
  const lines = other
    .slice(0, SHOWN)
    .map((row) => [
      row.rollout,
      row.status,
      row.before === null ? `failed: ${row.failure ?? 'internal'}` : gradeText(row.before),
      gradeText(row.after),
      firstLine(row.after === null ? row.why : row.after.reason),
    ]);
  for (const line of table([['ROLLOUT', 'STATUS', 'OLD', 'NEW', 'REASON'], ...lines])) say(line);
  if (other.length > SHOWN) say(`… and ${other.length - SHOWN} more: --json has all`);
  const { same, changed, failed, refused, skipped } = report.counts;
  say(`same ${same}, changed ${changed}, failed ${failed}, refused ${refused}, skipped ${skipped}`);
  if (report.newlyGraded > 0) say(`${report.newlyGraded} rollouts had no grade before`);
  const { rollouts, passRate, meanReward } = report.both;
  if (rollouts > 0) {
    say(`pass rate of ${rollouts} rollouts: ${share(passRate.before)} before, ${share(passRate.after)} now`);
    say(`mean reward: ${share(meanReward.before)} before, ${share(meanReward.after)} now`);
  }
  const { run, used, changed: isOther } = second.modules;
  if (isOther) say(`modules: ${used ?? 'none'} now, ${run ?? 'none'} then`);
}

/** Errors: `UserInputError` if nothing can be graded again, with the first reason. */
function refuseAll(run: string, rows: readonly Regraded[]): void {
  const [first] = rows;
  if (first?.status !== 'refused' || !rows.every(({ status }) => status === 'refused' || status === 'skipped')) return;
  throw new UserInputError('RUN', run, `it cannot be graded again: ${first.why}`);
}

function rescore(run: string, options: Options, context: VerbContext): Promise<Outcome> {
  return withLocalStore(context, async (local) => {
    const which = modulesOf(options);
    const { as, concurrency } = options;
    if (as !== undefined && !NAME.test(as))
      throw new UserInputError('--as', as, 'give a name of at most 32 small letters and dashes');
    const width =
      concurrency === undefined ? availableParallelism() : wholeNumber('--concurrency', concurrency, 1, 256);
    const outcomes = await chosen(run, options, local);
    await refusePrunedTurns(run, local.store, 'what graders read is gone, and it cannot be graded again');
    const second = await openSecondGrading(run, which, as, local.store);
    const rows = await grade(run, outcomes, second, width, local, context);
    refuseAll(run, rows);
    const report = rescored(rows);
    show(rows, report, second, context);
    const { name, modules } = second;
    return { document: { run, name, modules, ...report, rollouts: rows }, exitCode: report.counts.failed > 0 ? 1 : 0 };
  });
}

export const rescoreVerb: Verb = {
  define(command, run) {
    command
      .description(
        "Grades recorded rollouts again: each one's artifact, transcript, answer and state, " +
          "by today's grader in fresh sandboxes. No policy is asked; a grader's judges are. " +
          'The first verdicts stay. What is graded already is not graded twice: ' +
          'after an interruption the same command continues.',
      )
      .argument('<run>', 'name of the run, or eval/ID')
      .option('--step <n>', 'only the rollouts of this training step')
      .option('--task <key>', 'only the rollouts of this task')
      .option('--modules <which>', `today: the modules' files as they are; run: as the run started (default: today)`)
      .option('--as <name>', 'a name for this grading; the default names the grader, so that another one begins anew')
      .option('--concurrency <n>', 'rollouts that are graded at once (default: one for each processor)')
      .action((name: string, options: Options) => run((context) => rescore(name, options, context)));
  },
};
