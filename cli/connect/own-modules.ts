/** Loads the user's modules into the command line's process, for verbs that look up tasks. */

import { delimiter } from 'node:path';
import { loadOwnModules, MODULES_VARIABLE, ownModules } from '../../workers/own-modules.ts';
import { stackHome, stackPaths } from '../../connection/stack-paths.ts';
import { readStackState } from '../../connection/stack-state.ts';
import { runningStack } from '../../connection/stack-now.ts';
import type { VerbContext } from '../verb.ts';

/**
 * Loads the modules that the environment names. If it names none, loads those of the running stack, or, for verbs that
 * only read records (`last`), those of the folder's last stack. Errors: `UserInputError` for one that does not load.
 */
export async function loadModules({ env, cwd }: VerbContext, from: 'running' | 'last' = 'running'): Promise<void> {
  const given = ownModules(env, cwd);
  if (given.length > 0) return loadOwnModules(given);
  const paths = stackPaths(stackHome(env, cwd));
  const stack = from === 'last' ? readStackState(paths.state) : runningStack(paths);
  await loadOwnModules((stack?.settings?.[MODULES_VARIABLE] ?? '').split(delimiter).filter((path) => path !== ''));
}
