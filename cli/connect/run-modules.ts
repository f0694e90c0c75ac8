/** The modules of a run or an eval in the command line's process: bundled and imported once, and allowed to the workers. */

import { loadModulesAt } from '../../activities/orchestrator/open-modules.ts';
import type { Bundle } from '../../modules/bundle.ts';
import { stackHome } from '../../connection/stack-paths.ts';
import { allowBundle } from '../../workers/allowed/bundles.ts';
import type { VerbContext } from '../verb.ts';

interface WithModules {
  readonly modules?: readonly string[];
}

/** By their paths. */
const loaded = new Map<string, Promise<Bundle>>();

/** `undefined` if the configuration names none. Errors: `UserInputError` for `modules`. */
export function modulesOf({ modules }: WithModules): Promise<Bundle | undefined> {
  if (modules === undefined) return Promise.resolve(undefined);
  const key = JSON.stringify(modules);
  const bundle = loaded.get(key) ?? loadModulesAt(modules);
  loaded.set(key, bundle);
  return bundle;
}

/**
 * Allows the workers to run the modules that were loaded here to check the configuration. A run or an eval that exists
 * was not checked: its modules are those that it started with.
 */
export async function allowModules(
  { env, cwd }: Pick<VerbContext, 'env' | 'cwd'>,
  { modules }: WithModules,
): Promise<void> {
  const bundle = await loaded.get(JSON.stringify(modules));
  if (bundle !== undefined) allowBundle(stackHome(env, cwd), bundle);
}
