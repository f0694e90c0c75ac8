/** `longhaul prune`: removes from the store what ended runs and evals no longer need. */

import { type Prunable, prunable, type Pruned, pruneRecords } from '../../../activities/orchestrator/prune-records.ts';
import type { EvalRecord } from '../../../reports/evaluation/eval-records.ts';
import { storeUrlOf } from '../../../connection/store-url.ts';
import { type LocalStore, withLocalStore } from '../../connect/local-store.ts';
import { Interrupted, UserInputError } from '../../../client/errors.ts';
import { evalOf, localEval } from '../../eval/local-eval.ts';
import { table } from '../../terminal-text.ts';
import type { Outcome, Verb, VerbContext } from '../../verb.ts';

interface Options {
  readonly olderThan?: string;
  readonly dryRun?: boolean;
}

/** Milliseconds. Errors: `UserInputError`. */
function ageOf(text: string): number {
  const [, count, unit] = /^(\d{1,6})(h|d)$/u.exec(text) ?? [];
  if (unit === undefined) throw new UserInputError('--older-than', text, 'give hours or days, such as 12h or 7d');
  return Number(count) * (unit === 'd' ? 24 : 1) * 3_600_000;
}

interface Known {
  readonly ended: readonly Prunable[];
  /** Names of runs and evals that have not ended. */
  readonly live: readonly string[];
}

async function allOf(local: LocalStore): Promise<Known> {
  const evals = (await local.store.list<EvalRecord>('eval:')).map(({ value }) => `eval/${value.eval}`);
  const names = [...(await local.runs()).map(({ run }) => run), ...evals];
  const found = await Promise.all(names.map(async (name) => ({ name, one: await prunable(name, local.store) })));
  return { ended: found.flatMap(({ one }) => one ?? []), live: found.flatMap(({ name, one }) => (one ? [] : [name])) };
}

/** Errors: `UserInputError` for an unknown name. */
async function checkKnown(name: string, local: LocalStore): Promise<void> {
  const id = evalOf(name);
  await (id === undefined ? local.summary(name) : localEval(id, local));
}

/** Errors: `UserInputError` for an unknown name, or a run or eval that has not ended. */
async function chosen(
  names: readonly string[],
  { olderThan }: Options,
  known: Known,
  local: LocalStore,
): Promise<Prunable[]> {
  const before = olderThan === undefined ? Number.POSITIVE_INFINITY : Date.now() - ageOf(olderThan);
  if (names.length === 0 && olderThan === undefined)
    throw new UserInputError('RUN', '', 'name runs (or eval/ID), or give --older-than, such as 7d');
  for (const name of names) {
    await checkKnown(name, local);
    if (known.live.includes(name))
      throw new UserInputError(
        'RUN',
        name,
        `it has not ended, and prune takes only ended ones; end it with: npx longhaul cancel ${name}`,
      );
  }
  return known.ended.filter(
    ({ name, finishedAt }) => (names.length === 0 || names.includes(name)) && Date.parse(finishedAt) < before,
  );
}

const mebibytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

function rowOf({ name, status, finishedAt, rollouts, results, executions, objects }: Pruned): string[] {
  return [name, status, finishedAt, ...[rollouts, results, executions, objects].map(String)];
}

function prune(names: readonly string[], options: Options, context: VerbContext): Promise<Outcome> {
  return withLocalStore(context, async (local) => {
    const known = await allOf(local);
    const those = await chosen(names, options, known, local);
    const url = storeUrlOf(context.env, context.cwd);
    const dryRun = options.dryRun === true;
    const { note, signal } = context;
    const report = await pruneRecords(those, url, local.store, {
      dryRun,
      note,
      signal,
      shrink: known.live.length === 0,
    }).catch((error: unknown) => {
      if (!signal.aborted) throw error;
      throw new Interrupted('interrupted: some records are removed already. The same command removes the rest', {
        cause: error,
      });
    });
    const head = ['RUN', 'STATUS', 'ENDED', 'ROLLOUTS', 'RECORDS', 'EXECUTIONS', 'OBJECTS'];
    for (const line of table([head, ...report.pruned.map(rowOf)])) context.say(line);
    const { before, after } = report.bytes;
    context.say(
      dryRun
        ? `nothing was changed; the store has ${mebibytes(before)}`
        : `the store has ${mebibytes(after)} (${mebibytes(before)} before)`,
    );
    if (!dryRun && !report.shrunk)
      context.say(`its file keeps its size while ${known.live.join(', ')} is running; the free space is reused`);
    return { document: { dryRun, ...report } };
  });
}

export const pruneVerb: Verb = {
  define(command, run) {
    command
      .description(
        'Removes from the store what ended runs and evals no longer need: tokens and log-probabilities of each ' +
          'model call, answers of tools, ' +
          'graded artifacts, the journal of executions. Trajectories, rewards, accounting, ' +
          'steps and results stay. A pruned run cannot be started again.',
      )
      .argument('[run...]', 'names of runs that have ended, or eval/ID')
      .option(
        '--older-than <time>',
        'only what ended at least this long ago, in hours or days (12h, 7d); without names: all of it',
      )
      .option('--dry-run', 'list what would be removed, and remove nothing')
      .action((names: string[], options: Options) => run((context) => prune(names, options, context)));
  },
};
