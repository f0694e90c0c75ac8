/**
 * The user's modules, which define tasks and tools: every worker loads them before it polls, and so does the command
 * line where it looks up tasks.
 */

import { existsSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserInputError } from '../protocol/user-input-error.ts';
import { copyOf, importOwn } from '../modules/import-own.ts';
import { messageWithPlace } from '../modules/own-frame.ts';

/** Paths, separated like those of PATH. */
export const MODULES_VARIABLE = 'LONGHAUL_MODULES';
const LOADED_WITHIN_MS = 60_000;

/** Absolute, each once, in their order; relative ones are resolved from `cwd`. */
export function ownModules(env: NodeJS.ProcessEnv, cwd: string): readonly string[] {
  const given = (env[MODULES_VARIABLE] ?? '').split(delimiter).filter((path) => path !== '');
  return [...new Set(given.map((path) => resolve(cwd, path)))];
}

/** A module's top-level `await` may wait forever; without the timer, an otherwise idle process would end silently. */
async function withinLimit(path: string, ms: number): Promise<void> {
  const timer = new AbortController();
  const late = sleep(ms, undefined, { signal: timer.signal }).then(() => {
    throw new Error(`it did not load within ${ms / 1000} s`);
  });
  late.catch(() => undefined);
  await Promise.race([importOwn(path), late]).finally(() => timer.abort());
}

/** Loads each module once. Errors: `UserInputError` that names the path and what went wrong. */
export async function loadOwnModules(
  paths: readonly string[],
  field = MODULES_VARIABLE,
  withinMs = LOADED_WITHIN_MS,
): Promise<void> {
  for (const path of paths) {
    if (!existsSync(copyOf(path) ?? path))
      throw new UserInputError(field, path, 'give modules that can be imported (there is no such file)');
    try {
      await withinLimit(path, withinMs);
    } catch (error) {
      const reason = error instanceof Error ? `${error.name}: ${messageWithPlace(error)}` : String(error);
      throw new UserInputError(field, path, `give modules that can be imported (${reason})`, { cause: error });
    }
  }
}
