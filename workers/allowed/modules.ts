/**
 * Modules of one's own that a worker may load: those that the stack was started with and those that the command line was
 * given, each as its file was then. Another file under the same path is another module.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { delimiter } from 'node:path';
import { UserInputError } from '../../activities/failures.ts';
import { wordsOf } from './local-words.ts';

/** `PATH=SHA256`, separated as those of PATH are: what the stack's modules were when it was started. */
export const DIGESTS_VARIABLE = 'LONGHAUL_MODULE_DIGESTS';

/** Errors: those of reading it. */
export const moduleDigest = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');

/** What cannot be read is left out: to load it says why. */
export function moduleDigests(paths: readonly string[]): string {
  return paths.flatMap((path) => {
    try {
      return [`${path}=${moduleDigest(path)}`];
    } catch {
      return [];
    }
  }).join(delimiter);
}

function startedWith(env: NodeJS.ProcessEnv): Map<string, string> {
  const entries = (env[DIGESTS_VARIABLE] ?? '').split(delimiter).filter((entry) => entry !== '');
  return new Map(entries.map((entry) => [entry.slice(0, entry.lastIndexOf('=')), entry.slice(entry.lastIndexOf('=') + 1)]));
}

function isAs(path: string, digest: string | undefined): boolean {
  try {
    return moduleDigest(path) === digest;
  } catch {
    return false;
  }
}

const RESTART = 'npx longhaul down, then npx longhaul up --detach --modules PATH';

/** Of those that the stack was started with. Errors: `UserInputError` where a file is not what it was then. */
export function checkUnchanged(paths: readonly string[], field: string, env: NodeJS.ProcessEnv = process.env): void {
  const known = startedWith(env);
  for (const path of paths) {
    const digest = known.get(path);
    if (digest !== undefined && !isAs(path, digest)) throw new UserInputError(field, path, `its file has changed since the stack was started: put it back, or ${RESTART}`);
  }
}

/** Of a run. Errors: `UserInputError` for `field` where nobody of this machine allowed the module as it is. */
export function checkModuleAllowed(home: string, field: string, path: string, env: NodeJS.ProcessEnv = process.env): void {
  const allowed = [startedWith(env).get(path), wordsOf(home).modules.get(path)].filter((digest) => digest !== undefined);
  if (allowed.some((digest) => isAs(path, digest))) return;
  const why = allowed.length === 0 ? 'nobody has allowed it here' : 'its file has changed since it was allowed';
  throw new UserInputError(field, path, `${why}: start the run by npx longhaul train in the stack's folder, which allows it as it is now, or ${RESTART}`);
}
