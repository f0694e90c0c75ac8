/**
 * What a second grading is made of: the tasks of the run or eval, with its modules as they are today or as they were.
 * Its name is a digest of that, so that the same grading continues, and another grader begins anew.
 */

import { createHash } from 'node:crypto';
import { loadModulesAt } from '../../activities/orchestrator/open-modules.ts';
import type { Bundle } from '../../modules/bundle.ts';
import { type BundleStore, importStored, type ModulesRecord } from '../../modules/import-bundle.ts';
import type { Judges } from '../../protocol/judge.ts';
import type { RunRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import type { TaskCatalog } from '../../protocol/task-key.ts';
import { evalKeys, type EvalRecord } from '../../reports/evaluation/eval-records.ts';
import { putCatalog, readCatalog } from '../../store/read-records.ts';
import type { Store } from '../../store/store.ts';
import { DataChanged, TaskLoader } from '../../tasks/task-loader.ts';
import { buildOfPackage } from '../../workers/report-worker.ts';
import { UserInputError } from '../../client/errors.ts';

/** `today`: the modules' files as they are now. `run`: the bundle that the run or eval started with. */
export const WHICH_MODULES = ['today', 'run'] as const;
export type WhichModules = (typeof WHICH_MODULES)[number];

export interface SecondGrading {
  /** Small letters and dashes. */
  readonly name: string;
  readonly tasks: TaskLoader;
  /** Absent: keys start with names of environments. */
  readonly catalog?: ObjectRef;
  readonly judges?: Judges;
  readonly modules: {
    /** `null`: it has none. */
    readonly run: ObjectRef | null;
    readonly used: ObjectRef | null;
    readonly changed: boolean;
  };
}

interface Known {
  readonly catalog?: ObjectRef;
  readonly paths?: readonly string[];
  readonly judges?: Judges;
}

async function knownOf(name: string, store: Store): Promise<Known> {
  const [, id] = /^eval\/(.+)$/u.exec(name) ?? [];
  if (id !== undefined) {
    const { catalog, config } = (await store.get<EvalRecord>(evalKeys.record(id))) ?? {};
    return partsOf(catalog, config?.modules, config?.judges);
  }
  const { tasks, config } = (await store.get<RunRecord>(keys.run(name))) ?? {};
  return partsOf(tasks?.catalog, config?.modules, config?.judges);
}

const partsOf = (
  catalog: ObjectRef | undefined,
  paths: readonly string[] | undefined,
  judges: Judges | undefined,
): Known => ({ ...(catalog && { catalog }), ...(paths && { paths }), ...(judges && { judges }) });

/** Serves today's bundle from memory: other processes of the store are not allowed to run it by this. */
function bundleStore(store: Store, bundle: Bundle | undefined): BundleStore {
  return {
    get: <T>(key: string) => {
      if (bundle === undefined || key !== keys.modules(bundle.digest)) return store.get<T>(key);
      const record: ModulesRecord = { digest: bundle.digest, paths: bundle.paths, at: new Date().toISOString() };
      return Promise.resolve(record as T);
    },
    getObject: (ref) =>
      bundle !== undefined && ref === bundle.digest ? Promise.resolve(bundle.code) : store.getObject(ref),
  };
}

/** Letters alone: names are parts of keys. */
function nameOf(parts: unknown): string {
  const hex = createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 12);
  return Array.from(hex, (digit) => String.fromCharCode(97 + Number.parseInt(digit, 16))).join('');
}

/** Errors: `UserInputError` if the records of a dataset have changed: a stored answer belongs to the old ones. */
async function checkData(name: string, { sources, modules }: TaskCatalog, tasks: TaskLoader): Promise<void> {
  for (const source of Object.values(sources)) {
    try {
      await tasks.open(source, modules);
    } catch (error) {
      if (!(error instanceof DataChanged)) throw error;
      throw new UserInputError('RUN', name, `its answers belong to other records: ${error.message}`, { cause: error });
    }
  }
}

/** `as`: a name of its own. Errors: `UserInputError`; those of bundling and importing the modules. */
export async function openSecondGrading(
  run: string,
  which: WhichModules,
  as: string | undefined,
  store: Store,
): Promise<SecondGrading> {
  const { catalog, paths, judges } = await knownOf(run, store);
  const first = catalog === undefined ? undefined : await readCatalog(catalog, store);
  const bundle = which === 'today' && paths !== undefined ? await loadModulesAt(paths) : undefined;
  const used = bundle?.digest ?? first?.modules;
  const today: TaskCatalog | undefined = first && { sources: first.sources, ...(used && { modules: used }) };
  const ref = today && (await putCatalog(today, store));
  const tasks = new TaskLoader(bundleStore(store, bundle));
  if (today) {
    // The first load of a task imports the modules; a source opens with them.
    if (used !== undefined && bundle === undefined) await importStored(used, store);
    await checkData(run, today, tasks);
  }
  return {
    name: as ?? nameOf([buildOfPackage(), today ?? null, judges ?? null]),
    tasks,
    ...(ref && { catalog: ref }),
    ...(judges && { judges }),
    modules: { run: first?.modules ?? null, used: used ?? null, changed: first?.modules !== used },
  };
}
