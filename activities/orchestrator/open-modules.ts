/**
 * The modules of a run or an eval: bundled when it opens for the first time, and from then on named by the bundle's
 * digest. What it is resumed with is what it started with, whatever the files are by then.
 */

import { type Bundle, bundleModules } from '../../modules/bundle.ts';
import { importBundle, importStored, ModulesFailed, type ModulesRecord } from '../../modules/import-bundle.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { readCatalog } from '../../store/read-records.ts';
import type { Store } from '../../store/store.ts';

/** Whose code this worker runs. Both throw `UserInputError` for `modules` unless an operator's list allows it. */
export interface ModuleGuard {
  /** Called before a file is read. */
  mayRead(path: string): void;
  /** Called before the bundle runs. */
  mayRun(bundle: Bundle): void;
}

export interface OpenModulesDeps {
  readonly store: Store;
  /** Absent: every module may run. */
  readonly moduleGuard?: ModuleGuard | undefined;
}

/** Bundles the modules, and imports them into this process. Errors: `UserInputError` for `modules`. */
export async function loadModulesAt(paths: readonly string[], guard?: ModuleGuard): Promise<Bundle> {
  for (const path of paths) guard?.mayRead(path);
  const bundle = await bundleModules(paths);
  guard?.mayRun(bundle);
  await importBundle(bundle).catch((error: unknown) => {
    if (!(error instanceof ModulesFailed)) throw error;
    throw new UserInputError('modules', paths, `fix what does not load (${error.message})`, { cause: error });
  });
  return bundle;
}

/**
 * Imports the modules at `paths` and returns their digest; `undefined` if there are none. `known`: the catalog of a run
 * or an eval that has started before. Errors: `UserInputError` for `modules`; those of importing a stored bundle.
 */
export async function openModules(
  paths: readonly string[] | undefined,
  known: ObjectRef | undefined,
  { store, moduleGuard }: OpenModulesDeps,
): Promise<ObjectRef | undefined> {
  if (known !== undefined) {
    const { modules } = await readCatalog(known, store);
    if (modules !== undefined) await importStored(modules, store);
    return modules;
  }
  if (paths === undefined) return undefined;
  return recordBundle(await loadModulesAt(paths, moduleGuard), store);
}

/** Puts the bundle into the store: from now on every worker of the store may run it. */
export async function recordBundle({ digest, code, paths }: Bundle, store: Store): Promise<ObjectRef> {
  await store.putObject(code);
  await store.putOnce<ModulesRecord>(keys.modules(digest), { digest, paths, at: new Date().toISOString() });
  return digest;
}
