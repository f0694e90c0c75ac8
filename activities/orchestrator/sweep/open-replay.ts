/**
 * Finds what a policy `replay:RUN` says: for each task of the eval the graded rollouts of that run or eval. What does
 * not fit is refused before any rollout starts, by its name.
 */

import { evalKeys } from '../../../reports/evaluation/eval-records.ts';
import type { ReplayPolicy, ReplayScripts } from '../../../protocol/policy.ts';
import type { OutcomeRecord, PrunedRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { ObjectRef } from '../../../protocol/stages.ts';
import { readTaskKey, type TaskCatalog, type TaskSource } from '../../../protocol/task-key.ts';
import { UserInputError } from '../../../protocol/user-input-error.ts';
import { readCatalog } from '../../../store/read-records.ts';
import type { Store } from '../../../store/store.ts';

/** The tasks that an eval plays again. */
export interface Replayed {
  /** `RUN` or `eval/ID`. */
  readonly of: string;
  /** The policy's place in the eval's configuration, and as it is written there. */
  readonly field: string;
  readonly text: string;
  readonly tasks: readonly string[];
  /** Absent: each task's key starts with an environment's name. */
  readonly sources: TaskCatalog['sources'] | undefined;
}

/** Names that an error shows. */
const SHOWN = 5;

const listed = (names: readonly string[]): string =>
  names.length <= SHOWN ? names.join(', ') : `${names.slice(0, SHOWN).join(', ')} and ${names.length - SHOWN} more`;

const evalIn = (of: string): string | undefined => (of.startsWith('eval/') ? of.slice('eval/'.length) : undefined);

/** Errors: `UserInputError` for a run or an eval that does not exist, is not over, or was pruned. */
async function checkOver({ of, field, text }: Replayed, store: Store): Promise<void> {
  const id = evalIn(of);
  const known = await store.get(id === undefined ? keys.run(of) : evalKeys.record(id));
  if (known === undefined)
    throw new UserInputError(field, text, 'give replay:RUN or replay:eval/ID of a run or an eval of this stack');
  const end = await store.get(id === undefined ? keys.runEnd(of) : evalKeys.end(id, 1));
  if (end === undefined) throw new UserInputError(field, text, `${of} has not ended: wait for it, or cancel it`);
  const pruned = await store.get<PrunedRecord>(keys.pruned(of));
  if (pruned !== undefined)
    throw new UserInputError(field, text, `the turns of ${of} were pruned at ${pruned.at}; give another run`);
}

/** Why the two sources do not have the same tasks; `undefined` if they do. Another grader or tool is no reason. */
function otherTasks(then: TaskSource, now: TaskSource): string | undefined {
  if (then.environment !== now.environment)
    return `its tasks are of the environment ${then.environment}, and those of the eval of ${now.environment}`;
  if (then.digest !== undefined && now.digest !== undefined && then.digest !== now.digest)
    return 'its records have changed since: give the same options, and restore the files';
  const isSame = JSON.stringify(then.options) === JSON.stringify(now.options);
  return isSame || (then.digest !== undefined && now.digest !== undefined)
    ? undefined
    : `it had the options ${JSON.stringify(then.options)}`;
}

/** The source of a key. `undefined` if the catalog has none for it. */
function sourceOf(task: string, sources: TaskCatalog['sources'] | undefined) {
  if (sources === undefined) return undefined;
  const name = readTaskKey(task, Object.keys(sources))?.source;
  const source = name === undefined ? undefined : sources[name];
  return name === undefined || source === undefined ? undefined : { name, source };
}

/** Errors: `UserInputError` for the first source that has other tasks than it had then. */
async function checkCatalogs(outcomes: readonly OutcomeRecord[], asked: Replayed, store: Store): Promise<void> {
  const checked = new Set<string>();
  const catalogs = new Map<ObjectRef | undefined, TaskCatalog | undefined>();
  for (const { task, catalog } of outcomes) {
    if (!catalogs.has(catalog)) catalogs.set(catalog, catalog && (await readCatalog(catalog, store)));
    const then = sourceOf(task, catalogs.get(catalog)?.sources);
    const now = sourceOf(task, asked.sources);
    const name = now?.name ?? then?.name ?? '';
    if (checked.has(`${catalog} ${name}`)) continue;
    checked.add(`${catalog} ${name}`);
    // Without a catalog a key starts with the environment's name.
    const [one, other] = [then?.source ?? bare(now?.name), now?.source ?? bare(then?.name)];
    const why = one && other && otherTasks(one, other);
    if (why !== undefined)
      throw new UserInputError(asked.field, asked.text, `the source ${name} is another one: ${why}`);
  }
}

const bare = (environment: string | undefined): TaskSource | undefined =>
  environment === undefined ? undefined : { environment, options: {} };

/** Graded rollouts of the run by task, in the order of their ids: steps and samples by number. */
function scriptsOf(outcomes: readonly OutcomeRecord[]): ReplayScripts {
  const order = new Intl.Collator('en', { numeric: true });
  const sorted = outcomes.toSorted((a, b) => order.compare(a.rollout, b.rollout));
  const scripts: Record<string, Array<ReplayScripts[string][number]>> = {};
  for (const { task, rollout, attempt, turns } of sorted) (scripts[task] ??= []).push({ rollout, attempt, turns });
  return scripts;
}

/** Errors: `UserInputError` for `field` if the run cannot be played, or lacks tasks of the eval. */
export async function openReplay(asked: Replayed, store: Store): Promise<ReplayPolicy> {
  const { of, field, text, tasks } = asked;
  await checkOver(asked, store);
  const wanted = new Set(tasks);
  const prefix = evalIn(of) === undefined ? `train/${of}/` : `${of}/`;
  const outcomes = (await store.list<OutcomeRecord>(keys.outcome(prefix)))
    .map(({ value }) => value)
    .filter(({ status, task, turns }) => status === 'graded' && turns > 0 && wanted.has(task));
  await checkCatalogs(outcomes, asked, store);
  const scripts = scriptsOf(outcomes);
  const missing = tasks.filter((task) => scripts[task] === undefined);
  if (missing.length > 0)
    throw new UserInputError(
      field,
      text,
      `${of} has no graded rollout of ${listed(missing)}; give tasks: { ids: ` +
        `[...] } that it has (npx longhaul rollouts ${of})`,
    );
  const rollouts = await store.putObject(Buffer.from(JSON.stringify(scripts)));
  return { scripted: 'replay', of, rollouts, version: 0 };
}
