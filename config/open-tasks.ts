/** Opens the tasks of a run or an eval, and checks, before anything starts, that they exist and load. */

import { resolve } from 'node:path';
import { checkReach, checkServers } from '../agents/mcp/server.ts';
import { agentNamed } from '../agents/agent.ts';
import { checkSubAgents, toolsOfAll } from '../agents/sub-agents.ts';
import { closest } from '../protocol/closest.ts';
import { resolveOptions } from '../modules/options.ts';
import { messageWithPlace } from '../modules/own-frame.ts';
import type { RunConfig, TaskEntry } from '../protocol/run-config.ts';
import type { AgentChoice, ObjectRef } from '../protocol/stages.ts';
import {
  type OpenedTasks,
  readTaskKey,
  taskKey,
  type TaskPool,
  type TaskSource,
  type WeightedPool,
} from '../protocol/task-key.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import { type Dataset, hasSandbox, type Task } from '../tasks/environment.ts';
import { checkDeclaredJudges } from './judges-schema.ts';
import { unreadable } from './unreadable.ts';
import { environmentNamed } from '../tasks/registry.ts';
import { programOfTask } from '../tasks/program-of-task.ts';
import type { TaskLoader } from '../tasks/task-loader.ts';
import { DataUnavailable } from '../trainer/hub/hub-file.ts';

/** Tasks that steps draw from if the configuration has no number and the split has far more: a generator's split. */
const GENERATED = 1000;
/** Tasks of an evaluation or an eval that says no number, if there are so many. */
export const EVALUATED = 200;
/** Evaluations and evals draw from the first of these splits that the dataset has. */
const HELD_OUT = ['held-out', 'test', 'validation'];

/** The sources of the catalog, and the pools that steps and evaluations draw from. */
export interface CheckedTasks extends Omit<OpenedTasks, 'catalog'> {
  readonly sources: Readonly<Record<string, TaskSource>>;
  /** Tools of the sources' first tasks whose answers may have images. */
  readonly imageTools: readonly string[];
}

/**
 * `modules`: digest of its modules. Errors: `TypeError` for an invalid task; `UnknownName` for an unknown tool;
 * `UserInputError` for its options and for a server of tools.
 */
export function checkLoaded(key: string, task: Task, modules?: ObjectRef): void {
  const { messages, tools } = task;
  if (!Array.isArray(messages) || messages.length === 0)
    throw new TypeError(`task ${key} has no messages: load must return a list of them`);
  if (!Array.isArray(tools)) throw new TypeError(`task ${key} has no list of tools: load must return their names`);
  if (typeof task.grade !== 'function') throw new TypeError(`task ${key} has no grade: load must return a function`);
  const { agents = {}, mcp = {} } = task;
  const servers = Object.keys(mcp);
  checkSubAgents(agents, tools, servers, modules);
  const toolbox = toolsOfAll(tools, agents, servers, modules);
  checkServers(mcp, hasSandbox(task));
  checkReach(mcp);
  for (const [name, tool] of toolbox) tool.check(`tools.${name}.options`);
  if (hasSandbox(task)) return;
  const [stranded] = [...toolbox].find(([, { runs }]) => runs === 'sandbox') ?? [];
  if (stranded !== undefined)
    throw new TypeError(`task ${key} offers ${stranded}, which runs in a sandbox, and has none: give sandboxes`);
}

/**
 * The agent that replaces the tasks' own. `modules`: digest of the run's modules, imported.
 * Errors: `UserInputError` for an unknown type and for its options.
 */
export function checkAgent({ type: name, options }: Partial<AgentChoice>, modules?: ObjectRef): void {
  if (name === undefined) return;
  let type;
  try {
    type = agentNamed(name, modules);
  } catch (error) {
    throw new UserInputError('agent.type', name, `give a known agent (${messageWithPlace(error)})`, { cause: error });
  }
  resolveOptions(type, options, 'agent.options');
}

/** The option whose text is the path of a file, relative paths starting at `folder`: its dotted name, and the text. */
function optionWith(path: string, options: unknown, folder: string): readonly [string, string] | undefined {
  if (typeof options !== 'object' || options === null) return undefined;
  for (const [name, value] of Object.entries(options)) {
    if (typeof value === 'string' && resolve(folder, value) === path) return [name, value];
    const inner = optionWith(path, value, folder);
    if (inner !== undefined) return [`${name}.${inner[0]}`, inner[1]];
  }
  return undefined;
}

/** The error for a file that an environment's `open` cannot read; `undefined` for another error. */
function missingFile(
  error: unknown,
  { environment, options, folder = process.cwd() }: Pick<TaskEntry, 'environment' | 'options' | 'folder'>,
  field: string,
): UserInputError | undefined {
  const { path, why } = unreadable(error) ?? {};
  if (path === undefined) return undefined;
  const [name, text] = optionWith(path, options, folder) ?? [];
  if (name === undefined)
    return new UserInputError(field, options, `fix what ${environment} cannot open: ${path}: ${why}`);
  const start = text === path ? '' : ` (relative paths start at ${folder}: the folder of the configuration)`;
  return new UserInputError(`${field}.${name}`, text, `give a file that can be read: ${path}: ${why}${start}`);
}

/**
 * Opens the dataset of one entry. `modules`: digest of its modules, imported. `known`: the entry when the run or eval
 * started; its revisions of hubs are read as they were then. Errors: `UserInputError`, under `field`;
 * `DataUnavailable`.
 */
export async function openEntry(
  { environment: name, options, folder }: Pick<TaskEntry, 'environment' | 'options' | 'folder'>,
  field: { readonly name: string; readonly options: string },
  loader: TaskLoader,
  modules?: ObjectRef,
  known?: TaskSource,
): Promise<{ readonly source: TaskSource; readonly dataset: Dataset }> {
  let environment;
  try {
    environment = environmentNamed(name, modules);
  } catch (error) {
    throw new UserInputError(field.name, name, `give a known environment (${messageWithPlace(error)})`, {
      cause: error,
    });
  }
  resolveOptions(environment, options, field.options);
  const source = { environment: name, options, ...(folder !== undefined && { folder }) };
  const { commits: pinned } = known ?? {};
  try {
    const { dataset, commits } = await loader.openPinned({ ...source, ...(pinned && { commits: pinned }) }, modules);
    const isPinned = Object.keys(commits).length > 0;
    return { source: { ...source, ...(isPinned && { commits }), digest: dataset.digest }, dataset };
  } catch (error) {
    if (error instanceof UserInputError || error instanceof DataUnavailable) throw error;
    const missing = missingFile(
      error,
      { environment: name, options, ...(folder !== undefined && { folder }) },
      field.options,
    );
    if (missing !== undefined) throw missing;
    throw new UserInputError(field.options, options, `fix what ${name} cannot open (${messageWithPlace(error)})`, {
      cause: error,
    });
  }
}

/** Number of tasks of a split. Errors: `UserInputError` if the dataset has no such split. */
export function sizeOf(dataset: Dataset, split: string, field: string, name: string): number {
  if (Object.hasOwn(dataset.splits, split)) return dataset.splits[split] ?? 0;
  const splits = Object.keys(dataset.splits);
  const meant = closest(split, splits);
  throw new UserInputError(
    field,
    split,
    `${name} has ${splits.join(', ') || 'no split'}${meant === undefined ? '' : `; did you mean ${meant}?`}`,
  );
}

/** The settings' names, for messages. */
export interface PoolFields {
  readonly name: string;
  readonly count: string;
}

/**
 * Loads the first and the last task of a pool. Errors: `UserInputError`, for the name if the first task does not load,
 * for the count if the last one does not, or if it is more than the split has.
 */
export async function checkPool(
  dataset: Dataset,
  { source, split, from = 0, count }: TaskPool & { readonly from?: number },
  fields: PoolFields,
  modules?: ObjectRef,
): Promise<void> {
  const size = dataset.splits[split] ?? 0;
  if (from + count > size) {
    const room = Math.max(0, size - from);
    throw new UserInputError(
      fields.count,
      count,
      room === 0
        ? `${source} has ${size} ${split} tasks`
        : `give at most ${room}: ` +
            `${source} has ${size} ${split} tasks${from > 0 ? `, and the first one is ${from}` : ''}`,
    );
  }
  const load = async (index: number): Promise<unknown> => {
    try {
      checkLoaded(`${source}-${split}-${index}`, await dataset.load(split, index), modules);
      return undefined;
    } catch (error) {
      return error;
    }
  };
  const first = await load(from);
  if (first !== undefined)
    throw new UserInputError(fields.name, source, `fix its ${split} task ${from} (${messageWithPlace(first)})`, {
      cause: first,
    });
  const last = count > 1 ? await load(from + count - 1) : undefined;
  if (last !== undefined)
    throw new UserInputError(
      fields.count,
      count,
      `give less: ${split} task ${from + count - 1} of ${source} cannot be loaded (${messageWithPlace(last)})`,
      { cause: last },
    );
}

/** Errors: `UserInputError` for `field` if none is asked for, and the dataset has none of the usual ones. */
export function heldOutSplit({ splits }: Dataset, asked: string | undefined, field: string, name: string): string {
  if (asked !== undefined) return asked;
  const found = HELD_OUT.find((split) => (splits[split] ?? 0) > 0);
  if (found !== undefined) return found;
  throw new UserInputError(
    field,
    undefined,
    `give the split to draw from: ${name} has ${Object.keys(splits).join(', ') || 'no split'}`,
  );
}

/** Divides `total` into whole numbers by weight, none above its `most`. The largest remainders are rounded up. */
export function sharedBy(
  total: number,
  parts: ReadonlyArray<{ readonly weight: number; readonly most: number }>,
): number[] {
  const sum = parts.reduce((all, { weight }) => all + weight, 0);
  const exact = parts.map(({ weight }) => (total * weight) / sum);
  const shares = exact.map((share, i) => Math.min(Math.floor(share), parts[i]?.most ?? 0));
  const byRest = exact
    .map((share, i) => [share - Math.floor(share), i] as const)
    .toSorted(([a, i], [b, j]) => b - a || i - j);
  let left =
    Math.min(
      total,
      parts.reduce((all, { most }) => all + most, 0),
    ) - shares.reduce((all, n) => all + n, 0);
  while (left > 0) {
    for (const [, i] of byRest) {
      if (left === 0 || (shares[i] ?? 0) >= (parts[i]?.most ?? 0)) continue;
      shares[i] = (shares[i] ?? 0) + 1;
      left -= 1;
    }
  }
  return shares;
}

type Asked = Pick<RunConfig, 'tasks' | 'evaluation' | 'batch' | 'agent' | 'judges'>;

/** Errors: `UserInputError` if the agent is a program whose tokens are not recorded: nothing could be trained on. */
function refuseUntrainable(
  task: Task,
  source: string,
  { type, options }: RunConfig['agent'],
  modules?: ObjectRef,
): void {
  const chosen = type === undefined ? undefined : { type, ...(options && { options }) };
  const program = programOfTask(task, chosen, modules);
  if (program === undefined || program.tokens || program.gateway === true) return;
  throw new UserInputError(
    'agent.options.tokens',
    false,
    'set true if the program reports the sampled tokens of every turn, or set agent.options.gateway: true: ' +
      `without them the rollouts of ${source} are for evals only`,
  );
}

/**
 * Opens every entry and returns its pools. `modules`: digest of the run's modules, imported. `begun`: the sources of a
 * run that has started before. Errors: `DataUnavailable` for records on a hub; `UserInputError` for an unknown
 * environment or split, for invalid options, for more training or held-out tasks than it has, or if a task does not
 * load.
 */
export async function checkTasksOfRun(
  { tasks: entries, evaluation, batch, agent, judges }: Asked,
  loader: TaskLoader,
  modules?: ObjectRef,
  begun: Readonly<Record<string, TaskSource>> = {},
): Promise<CheckedTasks> {
  checkAgent(agent, modules);
  const isOne = entries.length === 1;
  const sources: Record<string, TaskSource> = {};
  const imageTools = new Set<string>();
  const train: WeightedPool[] = [];
  const held: Array<TaskPool & { readonly dataset: Dataset; readonly weight: number }> = [];
  for (const [i, entry] of entries.entries()) {
    const at = isOne ? 'task' : `tasks.${i}`;
    const fields = { name: isOne ? 'task.name' : `${at}.environment`, count: `${at}.train` };
    const { source: known, dataset } = await openEntry(
      entry,
      { name: fields.name, options: `${at}.options` },
      loader,
      modules,
      begun[entry.source],
    );
    const { source, split, weight } = entry;
    const size = sizeOf(dataset, split, `${at}.split`, source);
    const count = entry.train ?? (size > GENERATED * GENERATED ? GENERATED : size);
    await checkPool(dataset, { source, split, count }, fields, modules);
    const first = await dataset.load(split, 0);
    refuseUntrainable(first, source, agent, modules);
    for (const [name, { images }] of toolsOfAll(first.tools, first.agents ?? {}, Object.keys(first.mcp ?? {}), modules))
      if (images) imageTools.add(name);
    const heldOut = heldOutSplit(dataset, evaluation.split, 'evaluation.split', source);
    const most = sizeOf(dataset, heldOut, 'evaluation.split', source);
    sources[source] = known;
    train.push({ source, split, count, weight });
    held.push({ source, split: heldOut, count: most, dataset, weight });
  }
  const wanted = evaluation.tasks ?? EVALUATED;
  const shares = sharedBy(
    wanted,
    held.map(({ weight, count }) => ({ weight, most: count })),
  );
  const fields = { name: isOne ? 'task.name' : 'tasks', count: 'evaluation.tasks' };
  const heldOut = held.flatMap(({ source, split, dataset }, i) => {
    const share = evaluation.tasks !== undefined && isOne ? evaluation.tasks : (shares[i] ?? 0);
    return share === 0 ? [] : [{ pool: { source, split, count: share }, dataset }];
  });
  checkDeclaredJudges(entries, judges, modules);
  checkKeys([...train, ...held]);
  for (const { pool, dataset } of heldOut) await checkPool(dataset, pool, fields, modules);
  checkStep(train, batch);
  return { sources, imageTools: [...imageTools], train, heldOut: heldOut.map(({ pool }) => pool) };
}

/** Errors: `UserInputError` if a key could mean a task of two sources: `a` with the split `b-train`, and `a-b`. */
function checkKeys(pools: readonly TaskPool[]): void {
  const sources = pools.map(({ source }) => source);
  for (const { source, split } of pools) {
    const read = readTaskKey(taskKey(source, split, 0), sources);
    if (read?.source === source && read.split === split) continue;
    throw new UserInputError(
      'tasks',
      source,
      `give it another source: its keys begin with ${source}-${split}, which is also a split of ` +
        `${read?.source ?? source}`,
    );
  }
}

/** Errors: `UserInputError` if a step would draw a task twice. */
function checkStep(
  train: readonly WeightedPool[],
  { tasks, dynamicSampling: { type, maxSampleBatches } }: RunConfig['batch'],
): void {
  const drawn = tasks * (type === 'none' ? 1 : maxSampleBatches);
  const sum = train.reduce((all, { weight }) => all + weight, 0);
  for (const { source, count, weight } of train) {
    const most = train.length === 1 ? drawn : Math.floor((drawn * weight) / sum) + 1;
    if (most <= count) continue;
    const [field, value] =
      type === 'none'
        ? (['batch.tasks', tasks] as const)
        : (['batch.dynamicSampling.maxSampleBatches', maxSampleBatches] as const);
    throw new UserInputError(
      field,
      value,
      `give less: a step may draw ${most} tasks of ${source}, and its pool has ${count}`,
    );
  }
}
