/**
 * Removes from the store what an ended run or eval no longer needs: each call's tokens and answers, artifacts, and the
 * journal of its executions. Every trajectory is recorded first and stays, as do outcomes, ends, events, steps and
 * results. A pruned run cannot be started again.
 */

import { setImmediate as otherWork } from 'node:timers/promises';
import { openPruner, type Pruner, storeBytes } from '../../store/open-store.ts';
import type { Prefixes, Removed, RemovedNaming } from '../../store/sqlite-prune.ts';
import type { Store } from '../../store/store.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import { evalRun } from '../../reports/evaluation/eval-records.ts';
import { evalResultsOf } from '../../reports/evaluation/eval-results.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { OutcomeRecord, PrunedRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { endOfRun } from '../../reports/run-end.ts';
import { keepTrajectory } from '../../reports/trajectories.ts';

/** Records that name an object: the object is deleted with the last record that names it. */
const NAMING = ['collect:', 'ask:', 'object:', 'snapshot:', 'snapshot-piece:', 'call:', 'again:ask:'];
/** Other kinds of records, and of executions in the journal, that only the work itself reads. */
const RECORDS = [
  'generate',
  'act',
  'answer',
  'mcp',
  'program',
  'gateway-key',
  'restored',
  'verdict',
  'ungraded',
  'tries',
  // Of rollouts that were graded again.
  'again:verdict',
  'again:outcome',
  'again:act',
  'again:ungraded',
] as const;
const EXECUTIONS = [
  'init',
  'start',
  'restore',
  'model:generate',
  'judge:ask',
  'tool',
  'step',
  'program',
  'replay',
  'collect',
  'reward',
  'again:reward',
  'again:judge:ask',
] as const;

const spentUnder = (begins: readonly string[]): Prefixes => ({
  results: begins.flatMap((begin) => RECORDS.map((kind) => `${kind}:${begin}`)),
  executions: begins.flatMap((begin) => EXECUTIONS.map((kind) => `${kind}:${begin}`)),
});

/** How keys of a rollout's own records start, and those of its second gradings, whose id is `ROLLOUT@NAME`. */
const beginsOf = (rollouts: ReadonlyArray<Pick<OutcomeRecord, 'rollout'>>): string[] =>
  rollouts.flatMap(({ rollout }) => [`${rollout}#`, `${rollout}@`]);

/** A run by its name, an eval as `eval/ID`. */
export interface Prunable {
  readonly name: string;
  readonly status: 'completed' | 'failed' | 'cancelled';
  readonly finishedAt: string;
}

export interface Pruned extends Prunable {
  readonly rollouts: number;
  /**
   * Numbers of deleted records, executions of the journal and objects. In a dry run: of those to delete, objects at
   * most.
   */
  readonly results: number;
  readonly executions: number;
  readonly objects: number;
}

const EVAL = 'eval/';
const isEval = (name: string): boolean => name.startsWith(EVAL);

/** The prefix of its rollouts' ids. */
const prefixOf = (name: string): string => (isEval(name) ? `${name}/` : `train/${name}/`);

/** Returns `undefined` if the run or eval is still running. */
export async function prunable(name: string, store: Store): Promise<Prunable | undefined> {
  if (!isEval(name)) {
    const end = await endOfRun(name, store);
    return end && { name, status: end.status, finishedAt: end.finishedAt };
  }
  const results = await evalResultsOf(name.slice(EVAL.length), store);
  if (results === undefined || results.status === 'running' || results.finishedAt === null) return undefined;
  return { name: evalRun(results.eval), status: results.status, finishedAt: results.finishedAt };
}

/** Errors: `UserInputError` for a run that was started again meanwhile. */
async function mark(name: string, store: Store, pruner: Pruner): Promise<void> {
  const key = keys.pruned(name);
  if ((await store.get<PrunedRecord>(key)) !== undefined) return;
  await store.putOnce<PrunedRecord>(key, { at: new Date().toISOString() });
  if ((await prunable(name, store)) !== undefined) return;
  // A run records that it continues before its last check for the mark: so one of the two detects the other.
  pruner.deleteResult(key);
  throw new UserInputError('RUN', name, 'it was started again just now: prune it when it has ended');
}

/** Errors: `UserInputError` if the run's records were pruned: a run that starts again reads them. */
export async function refusePruned(run: string, store: Store): Promise<void> {
  const mark = await store.get<PrunedRecord>(keys.pruned(run));
  if (mark === undefined) return;
  throw new UserInputError(
    'run',
    run,
    `its records were pruned at ${mark.at}, so it cannot be started again; give another run name (to continue ` +
      'from one of its checkpoints, set policy.base to it)',
  );
}

export interface PruneOptions {
  readonly dryRun: boolean;
  readonly note: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Rollouts in one transaction, and between two lines of progress. */
const BATCH = 50;
const SAY_EVERY = 500;
/**
 * Rollouts whose artifacts are deleted in one transaction: each such transaction reads every run's records of
 * artifacts.
 */
const NAMING_BATCH = 500;

/** Each rollout's trajectory is recorded before its turns are deleted. */
async function pruneRollouts(
  outcomes: readonly OutcomeRecord[],
  store: Store,
  pruner: Pruner,
  { note, signal }: PruneOptions,
): Promise<Removed> {
  let sum: Removed = { results: 0, executions: 0 };
  for (let from = 0; from < outcomes.length; from += BATCH) {
    signal.throwIfAborted();
    const some = outcomes.slice(from, from + BATCH);
    for (const outcome of some) await keepTrajectory(outcome, store);
    sum = plus(sum, pruner.delete(spentUnder(beginsOf(some))));
    if (from > 0 && from % SAY_EVERY === 0) note(`${from} of ${outcomes.length} rollouts`);
    await otherWork();
  }
  return sum;
}

/**
 * Deletes artifacts of rollouts by the start of their records' keys. An artifact and the last record that names it are
 * deleted in one transaction, so a crash leaves both or none.
 */
async function pruneArtifacts(begins: readonly string[], pruner: Pruner, signal: AbortSignal): Promise<RemovedNaming> {
  let sum: RemovedNaming = { results: 0, objects: 0 };
  for (let from = 0; from < begins.length; from += NAMING_BATCH) {
    signal.throwIfAborted();
    const some = begins.slice(from, from + NAMING_BATCH).flatMap((begin) => NAMING.map((kind) => `${kind}${begin}`));
    const { results, objects } = pruner.deleteNaming(some, NAMING);
    sum = { results: sum.results + results, objects: sum.objects + objects };
    await otherWork();
  }
  return sum;
}

const plus = (a: Removed, b: Removed): Removed => ({
  results: a.results + b.results,
  executions: a.executions + b.executions,
});

async function pruneOne(one: Prunable, store: Store, pruner: Pruner, options: PruneOptions): Promise<Pruned> {
  const prefix = prefixOf(one.name);
  const outcomes = (await store.list<OutcomeRecord>(keys.outcome(prefix))).map(({ value }) => value);
  // Read through the store, which fails, before anything is deleted, for a record that names another object than was
  // written.
  const kinds = NAMING.map((kind) => store.list<{ artifact?: ObjectRef; exchange?: ObjectRef }>(`${kind}${prefix}`));
  const naming = (await Promise.all(kinds)).flat();
  // The run's own activities, such as its updates, have records under the run's own id.
  const all = spentUnder([prefix, prefix.replace(/\/$/, '#')]);
  const found = { ...one, rollouts: outcomes.length };
  if (options.dryRun) {
    const { results, executions } = pruner.count(all);
    return {
      ...found,
      results: results + naming.length,
      executions,
      objects: new Set(naming.map(({ value }) => value.artifact ?? value.exchange)).size,
    };
  }
  options.note(`${one.name}: ${outcomes.length} rollouts`);
  await mark(one.name, store, pruner);
  const removed = await pruneRollouts(outcomes, store, pruner, options);
  // Records of rollouts without an end are not needed any more, except an eval's: it may be started again at any time.
  const rest = isEval(one.name) ? { results: 0, executions: 0 } : pruner.delete(all);
  const ended = beginsOf(outcomes);
  const { results, objects } = await pruneArtifacts(
    isEval(one.name) ? ended : [...ended, prefix],
    pruner,
    options.signal,
  );
  return { ...found, ...plus(plus(removed, rest), { results, executions: 0 }), objects };
}

export interface PruneReport {
  readonly pruned: readonly Pruned[];
  /** Of the store's file, before and after. */
  readonly bytes: { readonly before: number; readonly after: number };
  /**
   * True if the file's free pages were released. They are not released while other work would have to wait for that.
   */
  readonly shrunk: boolean;
}

/**
 * `url`: the store's. `shrink`: true if nothing else is running. If this is interrupted at any moment, the next call
 * finishes it.
 */
export async function pruneRecords(
  those: readonly Prunable[],
  url: string,
  store: Store,
  { shrink, ...options }: PruneOptions & { readonly shrink: boolean },
): Promise<PruneReport> {
  const pruner = await openPruner(url);
  try {
    const before = await storeBytes(url);
    const pruned: Pruned[] = [];
    for (const one of those) pruned.push(await pruneOne(one, store, pruner, options));
    const shrunk = shrink && !options.dryRun;
    if (shrunk) pruner.shrink();
    return { pruned, bytes: { before, after: await storeBytes(url) }, shrunk };
  } finally {
    pruner.close();
  }
}
