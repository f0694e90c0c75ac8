/**
 * The modules of a run or an eval in the command line's process: bundled and imported once, and allowed to the workers.
 */

import { loadModulesAt } from '../../activities/orchestrator/open-modules.ts';
import type { Bundle } from '../../modules/bundle.ts';
import { stackHome } from '../../connection/stack-paths.ts';
import { allowBundle } from '../../workers/allowed/module-places.ts';
import type { VerbContext } from '../verb.ts';

interface WithModules {
  readonly modules?: readonly string[];
}

/** By the configuration that names them. */
const loaded = new WeakMap<WithModules, Promise<Bundle>>();

/** `undefined` if the configuration names none. Errors: `UserInputError` for `modules`. */
export function modulesOf(config: WithModules): Promise<Bundle | undefined> {
  if (config.modules === undefined) return Promise.resolve(undefined);
  const bundle = loaded.get(config) ?? loadModulesAt(config.modules);
  loaded.set(config, bundle);
  return bundle;
}

/**
 * Allows the workers to run the modules that were loaded here to check the configuration. A run or an eval that exists
 * was not checked: its modules are those that it started with.
 */
export async function allowModules({ env, cwd }: Pick<VerbContext, 'env' | 'cwd'>, config: WithModules): Promise<void> {
  const bundle = await loaded.get(config);
  if (bundle !== undefined) allowBundle(stackHome(env, cwd), bundle);
}
