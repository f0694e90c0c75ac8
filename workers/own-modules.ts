/**
 * Modules of one's own, which define tasks and tools: every worker loads them before it serves anything, and so does the
 * command line where it looks up tasks.
 */

import { delimiter, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserInputError } from '../activities/failures.ts';
import { importOwn } from '../tasks/import-own.ts';

/** Paths, separated as those of PATH are. */
export const MODULES_VARIABLE = 'LONGHAUL_MODULES';
const LOADED_WITHIN_MS = 60_000;

/** Absolute, each once, in their order; relative ones are taken from `cwd`. */
export function ownModules(env: NodeJS.ProcessEnv, cwd: string): readonly string[] {
  const given = (env[MODULES_VARIABLE] ?? '').split(delimiter).filter((path) => path !== '');
  return [...new Set(given.map((path) => resolve(cwd, path)))];
}

/** A module may wait for something at its top, for ever. */
async function withinLimit(path: string): Promise<void> {
  const timer = new AbortController();
  const late = sleep(LOADED_WITHIN_MS, undefined, { signal: timer.signal, ref: false }).then(() => {
    throw new Error(`it did not load within ${LOADED_WITHIN_MS / 1000} s`);
  });
  late.catch(() => undefined);
  await Promise.race([importOwn(path), late]).finally(() => timer.abort());
}

/** Loads each once. Errors: `UserInputError` that names the path and what went wrong. */
export async function loadOwnModules(paths: readonly string[], field = MODULES_VARIABLE): Promise<void> {
  for (const path of paths) {
    try {
      await withinLimit(path);
    } catch (error) {
      const reason = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
      throw new UserInputError(field, path, `give modules that can be imported (${reason})`, { cause: error });
    }
  }
}
