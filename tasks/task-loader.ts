/**
 * Finds tasks by their keys. A process opens a dataset once for the same environment and options, and caches the last
 * tasks: each is needed several times per rollout.
 */

import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import { checkServers } from '../agents/mcp/server.ts';
import { checkSubAgents, toolsOfAll } from '../agents/sub-agents.ts';
import { type Toolbox, toolboxOf } from '../agents/tools/toolbox.ts';
import { didYouMean } from '../protocol/closest.ts';
import { type BundleStore, importStored } from '../modules/import-bundle.ts';
import { resolveOptions } from '../modules/options.ts';
import { UnknownName } from '../modules/registry.ts';
import { readTaskKey, type TaskCatalog, type TaskSource } from '../protocol/task-key.ts';
import type { ObjectRef } from '../protocol/stages.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import { readCatalog } from '../store/read-records.ts';
import { parseHubFile } from '../trainer/hub/hub-file.ts';
import { checkDataset } from './check-dataset.ts';
import { type Dataset, type EnvironmentIo, hasSandbox, MAIN, type Task, UnknownTask } from './environment.ts';
import { environmentNamed, environmentNames } from './registry.ts';
import { checkResources, type Machine, machineOf } from './resources.ts';

/** A task with its names. */
export interface LoadedTask {
  readonly task: Task;
  /** `SOURCE-SPLIT-N`. */
  readonly key: string;
  readonly source: string;
  /** The task's own family, or its source. */
  readonly family: string;
  /** The tools that it lists, with their options. */
  readonly toolbox: Toolbox;
  /** With those that its agents list. */
  readonly everyTool: Toolbox;
  /** Digest of the users' modules among which its agent is looked up. Absent: there are none. */
  readonly modules?: ObjectRef;
}

/** A task key, and the catalog that says what it means. */
export interface TaskRef {
  readonly task: string;
  /** Absent: the key starts with the name of an environment, which is opened without options. */
  readonly catalog?: ObjectRef;
  /** Without a catalog: digest of imported modules that define the environment. Absent: the process knows it. */
  readonly modules?: ObjectRef;
}

const MOST = { catalogs: 64, datasets: 32, tasks: 256 } as const;

/** A cache by key. The oldest value is dropped first. Failures are not kept. */
class Recent<T> {
  readonly #most: number;
  readonly #values = new Map<string, Promise<T>>();

  constructor(most: number) {
    this.#most = most;
  }

  of(key: string, make: () => Promise<T>): Promise<T> {
    return this.#values.get(key) ?? this.set(key, make());
  }

  set(key: string, made: Promise<T>): Promise<T> {
    const [oldest] = this.#values.keys();
    if (this.#values.size >= this.#most && oldest !== undefined) this.#values.delete(oldest);
    this.#values.set(key, made);
    made.catch(() => {
      if (this.#values.get(key) === made) this.#values.delete(key);
    });
    return made;
  }
}

/** A dataset, and the commit of each `OWNER/NAME@REVISION` of a hub that it was read from. */
export interface PinnedDataset {
  readonly dataset: Dataset;
  readonly commits: Readonly<Record<string, string>>;
}

/** Called with each path in an environment's options, before it is read. Errors: any, if it may not be read. */
export type MayRead = (field: string, path: string) => void;

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

export class TaskLoader {
  readonly #store: BundleStore | undefined;
  readonly #mayRead: MayRead;
  readonly #mayRun: MayRead;
  readonly #catalogs = new Recent<TaskCatalog>(MOST.catalogs);
  readonly #datasets = new Recent<PinnedDataset>(MOST.datasets);
  readonly #tasks = new Recent<LoadedTask>(MOST.tasks);

  /**
   * `store`: has the catalogs and their modules. Absent: there are none. `mayRead`: absent: every path may be read.
   * `mayRun`: called with each path of a program or of code; absent: what may be read may be run.
   */
  constructor(store?: BundleStore, mayRead: MayRead = () => undefined, mayRun: MayRead = mayRead) {
    this.#store = store;
    this.#mayRead = mayRead;
    this.#mayRun = mayRun;
  }

  /**
   * `modules`: digest of imported modules. Errors: those of the environment's `open`; `DataChanged` if the records are
   * not those of the catalog.
   */
  async open(source: TaskSource, modules?: ObjectRef): Promise<Dataset> {
    return (await this.openPinned(source, modules)).dataset;
  }

  /** As `open`. Revisions of hubs that `source.commits` does not have are looked up. */
  async openPinned(source: TaskSource, modules?: ObjectRef): Promise<PinnedDataset> {
    const { environment: name, options: given, folder = '.', commits: known = {} } = source;
    const environment = environmentNamed(name, modules);
    const options = resolveOptions(environment, given, 'task.options');
    const keyOf = (commits: PinnedDataset['commits']): string =>
      sha256(
        JSON.stringify([
          modules,
          name,
          options,
          folder,
          Object.entries(commits).toSorted(([a], [b]) => (a < b ? -1 : 1)),
        ]),
      );
    const opened = this.#datasets.of(keyOf(known), async () => {
      const commits = { ...known };
      return { dataset: checkDataset(name, await environment.open(options, this.#io(folder, commits))), commits };
    });
    const { dataset, commits } = await opened;
    // Later calls name the commits that this one found.
    if (keyOf(commits) !== keyOf(known)) void this.#datasets.of(keyOf(commits), () => opened);
    if (source.digest !== undefined && source.digest !== dataset.digest) throw new DataChanged(name, given);
    return { dataset, commits };
  }

  /** `commits`: of revisions on hubs. New ones are added. */
  #io(folder: string, commits: Record<string, string>): EnvironmentIo {
    const mayRead = (option: string, path: string): string => {
      this.#mayRead(`task.options.${option}`, path);
      return path;
    };
    return {
      path: (option, path) => mayRead(option, resolve(folder, path)),
      code: (option, path) => {
        const absolute = resolve(folder, path);
        this.#mayRun(`task.options.${option}`, absolute);
        return absolute;
      },
      hub: async (option, text) => {
        const id = parseHubFile(text);
        if (id === undefined)
          throw new UserInputError(`task.options.${option}`, text, 'give hub:OWNER/NAME@REVISION/PATH');
        const revision = `${id.repo}@${id.revision}`;
        // Loaded here: most processes read none.
        const { resolveHubFile } = await import('../trainer/hub/resolve-file.ts');
        const { path, commit } = await resolveHubFile({ ...id, revision: commits[revision] ?? id.revision });
        commits[revision] = commit;
        return { path: mayRead(option, path), commit };
      },
    };
  }

  /**
   * Errors: `UnknownName`, `UnknownTask`, `UserInputError` if the task asks for what cannot be, and those of `open`,
   * `toolboxOf`, `checkServers`, and of importing the catalog's modules.
   */
  load({ task: key, catalog, modules: imported }: TaskRef): Promise<LoadedTask> {
    return this.#tasks.of(`${catalog ?? imported ?? ''} ${key}`, async () => {
      const { sources, modules = imported } = catalog === undefined ? {} : await this.#catalog(catalog);
      const known = sources ? Object.keys(sources) : environmentNames(modules);
      const place = readTaskKey(key, known);
      if (place === undefined) throw unknownKey(key, known);
      const { source, split, index } = place;
      const dataset = await this.open(sources?.[source] ?? { environment: source, options: {} }, modules);
      const size = Object.hasOwn(dataset.splits, split) ? (dataset.splits[split] ?? 0) : undefined;
      if (size === undefined) {
        const splits = Object.keys(dataset.splits);
        throw new UnknownTask(key, `${source} has the splits ${splits.join(', ')}${didYouMean(split, splits)}`);
      }
      if (index >= size) throw new UnknownTask(key, `${source} has ${size} tasks in ${split}, counted from 0`);
      const task = await dataset.load(split, index);
      checkServers(task.mcp ?? {}, hasSandbox(task));
      checkResources(task, key);
      const toolbox = toolboxOf(task.tools, modules);
      const { agents = {}, family = source } = task;
      const servers = Object.keys(task.mcp ?? {});
      checkSubAgents(agents, task.tools, servers, modules);
      const everyTool = toolsOfAll(task.tools, agents, servers, modules);
      return { task, key, source, family, toolbox, everyTool, ...(modules && { modules }) };
    });
  }

  /** What sandbox `name` of a task is made of. Errors: those of `load`; `TypeError` if the task has no such sandbox. */
  async sandboxOf(ref: TaskRef, name = MAIN): Promise<Machine> {
    return machineOf((await this.load(ref)).task, ref.task, name);
  }

  #catalog(ref: ObjectRef): Promise<TaskCatalog> {
    return this.#catalogs.of(ref, async () => {
      if (this.#store === undefined) throw new TypeError(`no store was given to read the catalog ${ref} from`);
      const catalog = await readCatalog(ref, this.#store);
      if (catalog.modules !== undefined) await importStored(catalog.modules, this.#store);
      return catalog;
    });
  }
}

function unknownKey(key: string, sources: readonly string[]): Error {
  const begun = sources
    .filter((source) => key === source || key.startsWith(`${source}-`))
    .toSorted((a, b) => b.length - a.length)[0];
  if (begun !== undefined) return new UnknownTask(key, `expected ${begun}-SPLIT-N, N from 0`);
  const name = key.replace(/-(train|held-out|test|\d+).*$/, '');
  return new UnknownName(
    `there is no environment for task ${key}; known: ${sources.join(', ')} (modules define ` +
      `others)${didYouMean(name, sources)}`,
  );
}

/** The records have changed since the run or eval started. */
export class DataChanged extends Error {
  override readonly name = 'DataChanged';

  constructor(environment: string, options: unknown) {
    super(
      `the records of ${environment} with the options ${JSON.stringify(options)} have changed since the run or ` +
        'eval started: restore the files, or start it under another name',
    );
  }
}
