/**
 * Whose modules a worker bundles and runs: those at the paths of the operator's list (`LONGHAUL_MODULES`), as they are
 * when a run opens, and bundles that the command line allowed, by their digest.
 */

import type { ModuleGuard } from '../../activities/orchestrator/open-modules.ts';
import type { Bundle } from '../../modules/bundle.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { ownModules } from '../own-modules.ts';
import { sayWord, wordsOf } from './local-words.ts';

const ALLOW =
  "start it with npx longhaul train or eval in the stack's folder, which allows the files as they are now, or run npx longhaul down, then npx longhaul up --detach --modules PATH";

/** `home`: of the stack. `env`: the worker's own. */
export function guardModules(home: string, env: NodeJS.ProcessEnv = process.env, cwd = process.cwd()): ModuleGuard {
  const listed = new Set(ownModules(env, cwd));
  return {
    mayRead(path) {
      if (listed.has(path) || wordsOf(home).bundles.some(({ paths }) => paths.includes(path))) return;
      throw new UserInputError('modules', path, `it is not allowed here: ${ALLOW}`);
    },
    mayRun({ digest, paths }) {
      if (paths.every((path) => listed.has(path))) return;
      if (wordsOf(home).bundles.some((word) => word.digest === digest)) return;
      throw new UserInputError('modules', paths, `a file has changed since they were allowed: ${ALLOW}`);
    },
  };
}

/** Allows the workers of the stack of `home` to run the bundle. */
export function allowBundle(home: string, { digest, paths }: Bundle): void {
  sayWord(home, { kind: 'bundle', digest, paths: [...paths] });
}
