/** Which store belongs to a stack's folder. */

import { join } from 'node:path';
import { sqliteUrl, STORE_VARIABLE, storeUrlFrom } from '../store/open-store.ts';
import { stackHome, stackPaths } from './stack-paths.ts';
import { readStackState } from './stack-state.ts';

/**
 * The URL of the store of the stack in `home`: `$LONGHAUL_STORE`, else what that stack was last started with, else
 * SQLite in its folder. Errors: `UserInputError` for a URL that cannot be used.
 */
export function storeUrl(home: string, env: NodeJS.ProcessEnv = process.env, cwd = process.cwd()): string {
  const given = env[STORE_VARIABLE] || readStackState(stackPaths(home).state)?.settings?.[STORE_VARIABLE];
  return given ? storeUrlFrom(given, cwd) : sqliteUrl(join(home, 'store'));
}

/** As `storeUrl`, for the folder that `env` names. */
export function storeUrlOf(env: NodeJS.ProcessEnv = process.env, cwd = process.cwd()): string {
  return storeUrl(stackHome(env, cwd), env, cwd);
}
