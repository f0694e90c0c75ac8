/**
 * Whose modules a worker bundles and runs: those in the operator's folders (`LONGHAUL_MODULE_PLACES`), as they are when
 * a run opens, and bundles that the command line allowed, by their digest.
 */

import { basename, dirname, join } from 'node:path';
import type { ModuleGuard } from '../../activities/orchestrator/open-modules.ts';
import type { Bundle } from '../../modules/bundle.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { sayWord, wordsOf } from './local-words.ts';
import { isBelow, namedPlaces, realPath } from './places.ts';

/** Files and folders that modules may be read from, separated like those of PATH. */
export const MODULE_PLACES_VARIABLE = 'LONGHAUL_MODULE_PLACES';

const ALLOW =
  "start it with npx longhaul train, eval or rollout in the stack's folder, which allows the files as they are " +
  `now, or allow a folder above it: npx longhaul down, then ${MODULE_PLACES_VARIABLE}=DIR npx longhaul up --detach`;

/** Errors: `UserInputError` for a variable that has no effect any more. */
export function refuseOldVariables(env: NodeJS.ProcessEnv): void {
  const given = env['LONGHAUL_MODULES'];
  if (given === undefined || given === '') return;
  throw new UserInputError(
    'LONGHAUL_MODULES',
    given,
    'unset it: name modules in the configuration (modules: [FILE]), or by npx longhaul rollout --modules FILE; ' +
      `for programs, ${MODULE_PLACES_VARIABLE}=DIR says where workers may read modules`,
  );
}

/** `home`: of the stack. `env`: the worker's own. */
export function guardModules(home: string, env: NodeJS.ProcessEnv = process.env, cwd = process.cwd()): ModuleGuard {
  const places = namedPlaces(MODULE_PLACES_VARIABLE, env, cwd).map(realPath);
  const isListed = (path: string): boolean => places.some((place) => isBelow(place, realPath(path)));
  return {
    mayRead(path) {
      if (isListed(path) || wordsOf(home).bundles.some(({ paths }) => paths.includes(path))) return;
      throw new UserInputError('modules', path, `it is not allowed here: ${ALLOW}`);
    },
    mayRun({ digest, paths }) {
      if (paths.every(isListed)) return;
      if (wordsOf(home).bundles.some((word) => word.digest === digest)) return;
      throw new UserInputError('modules', paths, `a file has changed since they were allowed: ${ALLOW}`);
    },
  };
}

/** Allows the workers of the stack of `home` to run the bundle. */
export function allowBundle(home: string, { digest, paths }: Bundle): void {
  sayWord(home, { kind: 'bundle', digest, paths: [...paths] });
}

/**
 * Errors: `UserInputError` for `field` if this worker may not run code of `path`, such as that of an environment in
 * Python. A link of a virtual environment to its interpreter counts as what it is in.
 */
export function checkCodePlace(
  field: string,
  path: string,
  env: NodeJS.ProcessEnv = process.env,
  cwd = process.cwd(),
): void {
  const listed = namedPlaces(MODULE_PLACES_VARIABLE, env, cwd).map(realPath);
  const at = join(realPath(dirname(path)), basename(path));
  if (listed.some((place) => isBelow(place, at))) return;
  throw new UserInputError(
    field,
    path,
    `the workers may not run code from there: npx longhaul down, then ${MODULE_PLACES_VARIABLE}=DIR npx ` +
      'longhaul up --detach',
  );
}
