/**
 * Opens a run: its folder and its record are made once, and from then on its name stands for one configuration. Another
 * configuration is refused before anything is written.
 */

import { createHash } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import type { Store } from '../../store/store.ts';
import type { OpenedRun } from '../../protocol/activities.ts';
import { NOTHING_BEGUN } from '../../workflows/training/overlap/staleness-gate.ts';
import type { PolicyRef } from '../../protocol/policy.ts';
import type { RunConfig, TrainingPlacement } from '../../protocol/run-config.ts';
import { type OpenedTasks, taskKey } from '../../protocol/task-key.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import type { RunRecord, StepEntry, UpdateEntry } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { workedMsOf } from '../../reports/run-end.ts';
import { changesOfRun, putCatalog, readCatalog } from '../../store/read-records.ts';
import { checkDefinitions } from '../../config/algorithm/config.ts';
import { openModules, type OpenModulesDeps } from './open-modules.ts';
import { type CheckedTasks, checkTasksOfRun } from '../../config/open-tasks.ts';
import type { DescribePolicy } from './describe-model.ts';
import { canBeGreedy, openPolicy } from './open-policy.ts';
import { refuseOtherTools, type ToolsDeps, toolsOfTasks } from './tools-of-tasks.ts';
import { resolveRunConfig } from '../../config/run-config.ts';
import { removeLeftovers, writeAtomically } from '../../store/atomic-write.ts';

/** A temporary file that was not written to for so long has no writer. */
const LEFT_MS = 10 * 60_000;

export interface OpenRunDeps extends OpenModulesDeps, ToolsDeps {
  readonly describePolicy: DescribePolicy;
  /** Why the GPU workers could not train a run of this placement; absent: nothing is known of them. */
  readonly refusedPlacement?: (placement: TrainingPlacement) => string | undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The configuration with the run's name from the workflow's id; a configuration with another name is refused. */
function named(given: unknown, run: string | undefined): unknown {
  if (run === undefined || !isObject(given)) return given;
  if (given['run'] !== undefined && given['run'] !== run) {
    throw new UserInputError(
      'run',
      given['run'],
      `the workflow's id is train/${run}: leave \`run\` out, or use the same name in both`,
    );
  }
  return { ...given, run };
}

/** Sorted by field, so that the order of fields in a configuration does not matter. */
function leaves(value: unknown, path: string): Array<readonly [string, string]> {
  if (!isObject(value)) return value === undefined ? [] : [[path, JSON.stringify(value)]];
  const names = Object.keys(value).sort();
  return names.flatMap((name) => leaves(value[name], path === '' ? name : `${path}.${name}`));
}

/** SHA-256 of the fields and their values, as hexadecimal digits. */
export function configDigest(config: object): string {
  return createHash('sha256')
    .update(JSON.stringify(leaves(config, '')))
    .digest('hex');
}

/** The configuration that a name stands for already, and the one that is given now. */
interface Compared {
  readonly kind: 'run' | 'eval';
  readonly name: string;
  readonly known: object;
  readonly asked: object;
  /** A remedy other than to keep the first configuration; by default another name. */
  readonly instead?: string;
}

/** Results are recorded under the name: with another configuration they would appear as results of that one. */
export function refuseOtherConfig({ kind, name, known, asked, instead }: Compared): void {
  const [before, now] = [new Map(leaves(known, '')), new Map(leaves(asked, ''))];
  const field = [...new Set([...before.keys(), ...now.keys()])]
    .sort()
    .find((leaf) => before.get(leaf) !== now.get(leaf));
  if (field === undefined) return;
  const value: unknown = JSON.parse(now.get(field) ?? 'null');
  throw new UserInputError(
    field,
    value,
    `${kind} ${name} began with ${before.get(field) ?? 'none'}; keep that, ` +
      `${instead ?? `or give another ${kind} name`}`,
  );
}

function checkSameConfig(config: RunConfig, { config: known, configSha256 }: RunRecord): void {
  if (!known || configSha256 === configDigest(config)) return;
  refuseOtherConfig({ kind: 'run', name: config.run, known, asked: config });
}

async function checkFolder(run: string, runDir: string): Promise<void> {
  const found = await readdir(join(runDir, 'checkpoints')).catch(() => []);
  if (found.length === 0) return;
  const remedy =
    `${runDir} has checkpoints of a run that this store does not know; give another run name, ` +
    'or move that folder away';
  throw new UserInputError('run', run, remedy);
}

/**
 * If rollouts and updates overlap, the groups that a step trains on depend on when they ended: a run that starts again
 * continues from the last recorded step. A synchronous run goes through its records from the first step.
 */
async function onRecord(run: string, base: PolicyRef, store: Store): Promise<Pick<OpenedRun, 'recorded' | 'resume'>> {
  const last = (await store.list<StepEntry>(`step:${run}/`)).at(-1)?.value;
  const next = await store.get<UpdateEntry>(keys.update(run, (last?.record.step ?? 0) + 1));
  // The update was made, but the run ended before its step was recorded: that step trains on the same units.
  const owed = next?.units ? { owed: next.units } : {};
  if (last === undefined)
    return next?.units ? { resume: { step: 0, policy: base, overlap: NOTHING_BEGUN, ...owed } } : {};
  const recorded = last.record.step;
  return {
    recorded,
    ...(last.overlap && { resume: { step: recorded, policy: last.policy, overlap: last.overlap, ...owed } }),
  };
}

/** The tasks in numbers, for summaries. */
const inNumbers = ({ train, heldOut }: CheckedTasks): RunRecord['task'] => ({
  name: train.map(({ source }) => source).join(' + '),
  train: train.reduce((sum, { count }) => sum + count, 0),
  heldOut: heldOut.reduce((sum, { count }) => sum + count, 0),
});

/** Stores the catalog of the tasks as they are now. */
async function frozen(
  { sources, train, heldOut }: CheckedTasks,
  modules: ObjectRef | undefined,
  store: Store,
): Promise<OpenedTasks> {
  return { catalog: await putCatalog({ sources, ...(modules && { modules }) }, store), train, heldOut };
}

/** Errors: `UserInputError` if records have changed since the run started: it would continue with other tasks. */
async function checkSameTasks({ run, tasks }: RunRecord, { sources }: CheckedTasks, store: Store): Promise<void> {
  const { sources: known, modules } = await readCatalog(tasks.catalog, store);
  if ((await putCatalog({ sources, ...(modules && { modules }) }, store)) === tasks.catalog) return;
  const [changed = ''] = Object.keys(sources).filter((source) => sources[source]?.digest !== known[source]?.digest);
  throw new UserInputError(
    'task',
    changed,
    `its records have changed since run ${run} started: restore the files, or give another run name`,
  );
}

/**
 * `run`: the name in the workflow's id, if there is one.
 * Errors: `UserInputError` for what cannot be used, and for a name that stands for something else already.
 */
export async function openRun(
  given: unknown,
  run: string | undefined,
  { store, tasks, describePolicy, refusedPlacement, moduleGuard, guardTools }: OpenRunDeps,
): Promise<OpenedRun> {
  const config = resolveRunConfig(named(given, run), process.cwd());
  const { placement = 'colocated' } = config.training ?? {};
  const refused = refusedPlacement?.(placement);
  if (refused !== undefined) throw new UserInputError('training.placement', placement, refused);
  const known = await store.get<RunRecord>(keys.run(config.run));
  const modules = await openModules(config.modules, known?.tasks.catalog, { store, moduleGuard });
  checkDefinitions(config.algorithm, config.training?.mode, modules);
  const begun = known && (await readCatalog(known.tasks.catalog, store)).sources;
  const checked = await checkTasksOfRun(config, tasks, modules, begun);
  const runDir = join(config.dir, config.run);
  if (!known) await checkFolder(config.run, runDir);
  const opened = await openPolicy(config, known, modules, describePolicy);
  const asked = await frozen(checked, modules, store);
  const firsts = asked.train.map(({ source, split }) => ({ task: taskKey(source, split, 0), catalog: asked.catalog }));
  const tools = await toolsOfTasks(firsts, { tasks, guardTools });
  const record = await store.putOnce<RunRecord>(keys.run(config.run), {
    run: config.run,
    runDir,
    seed: config.seed,
    startedAt: new Date().toISOString(),
    ...opened,
    task: inNumbers(checked),
    tasks: asked,
    ...(modules && { modules }),
    ...(tools && { tools }),
    config,
    configSha256: configDigest(config),
  });
  checkSameConfig(config, record);
  await checkSameTasks(record, checked, store);
  refuseOtherTools(`run ${config.run}`, { began: record.tools, now: tools });
  await mkdir(record.runDir, { recursive: true });
  await removeLeftovers(record.runDir, LEFT_MS);
  await writeAtomically(join(record.runDir, 'config.yaml'), stringify(config));
  const changes = await changesOfRun(store, config.run);
  const policy = { uri: record.policy.base, version: 0 };
  return {
    config: {
      ...config,
      ...(modules && { algorithm: { ...config.algorithm, modules } }),
      opened: record.tasks,
      ...(canBeGreedy(config, modules) ? {} : { withoutGreedy: true }),
    },
    runDir: record.runDir,
    policy,
    ...(changes.length > 0 ? { changes } : {}),
    ...(await onRecord(config.run, policy, store)),
    workedMs: await workedMsOf(config.run, store),
  };
}
