/**
 * Modules of one's own that a worker may load: those that the stack was started with and those that the command line was
 * given, each as its file was then: what was allowed is kept, and loaded from there.
 */

import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, readFileSync } from 'node:fs';
import { delimiter, dirname, extname, join } from 'node:path';
import { writeWhole } from '#setup/files.mjs';
import { ModuleChanged } from '../../activities/failures.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { readFromCopy } from '../../modules/import-own.ts';
import { wordsOf } from './local-words.ts';

/** `PATH=SHA256`, separated as those of PATH are: what the stack's modules were when it was started. */
export const DIGESTS_VARIABLE = 'LONGHAUL_MODULE_DIGESTS';

const digestOf = (content: Buffer | string): string => createHash('sha256').update(content).digest('hex');

/** Errors: those of reading it. */
export const moduleDigest = (path: string): string => digestOf(readFileSync(path));

/** What cannot be read is left out: to load it says why. */
export function moduleDigests(paths: readonly string[]): string {
  return paths
    .flatMap((path) => {
      try {
        return [`${path}=${moduleDigest(path)}`];
      } catch {
        return [];
      }
    })
    .join(delimiter);
}

function startedWith(env: NodeJS.ProcessEnv): Map<string, string> {
  const entries = (env[DIGESTS_VARIABLE] ?? '').split(delimiter).filter((entry) => entry !== '');
  return new Map(
    entries.map((entry) => [entry.slice(0, entry.lastIndexOf('=')), entry.slice(entry.lastIndexOf('=') + 1)]),
  );
}

function bytesOf(path: string, digest: string): Buffer | undefined {
  try {
    const bytes = readFileSync(path);
    return digestOf(bytes) === digest ? bytes : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The copy, in the stack's home, of the module whose file had this digest; made where the file still has it.
 * `undefined`: there is none, and the file is another.
 */
export function keptCopy(home: string, path: string, digest: string): string | undefined {
  const copy = join(home, 'allowed', 'modules', `${digest}${extname(path)}`);
  if (bytesOf(copy, digest) !== undefined) return copy;
  const bytes = bytesOf(path, digest);
  if (bytes === undefined) return undefined;
  mkdirSync(dirname(copy), { recursive: true, mode: 0o700 });
  writeWhole(copy, bytes);
  chmodSync(copy, 0o600);
  return copy;
}

const RESTART = 'npx longhaul down, then npx longhaul up --detach --modules PATH';

/** Of what a stack is started with: a later edit of a file changes no worker of it. */
export function keepModules(home: string, env: NodeJS.ProcessEnv): void {
  for (const [path, digest] of startedWith(env)) keptCopy(home, path, digest);
}

/** Loads of those that the stack was started with are of what they were then. Errors: `UserInputError` where a file has changed and no copy of it is left. */
export function readAsStarted(
  home: string,
  paths: readonly string[],
  field: string,
  env: NodeJS.ProcessEnv = process.env,
): void {
  const known = startedWith(env);
  for (const path of paths) {
    const digest = known.get(path);
    if (digest === undefined) continue;
    const copy = keptCopy(home, path, digest);
    if (copy === undefined)
      throw new UserInputError(
        field,
        path,
        `its file has changed since the stack was started, and the copy in ${home} is gone: put the file back, or ${RESTART}`,
      );
    readFromCopy(path, copy);
  }
}

/** What a run began with, on this machine: a module that is allowed anew under the same path is another run's. */
const runFile = (home: string, run: string): string => join(home, 'allowed', 'modules', `${digestOf(run)}.run`);

function begunWith(
  home: string,
  run: string | undefined,
): { readonly path: string; readonly digest: string } | undefined {
  try {
    const [, digest, path] = /^([0-9a-f]{64}) (.+)$/s.exec(readFileSync(runFile(home, run ?? ''), 'utf8')) ?? [];
    return digest === undefined || path === undefined ? undefined : { path, digest };
  } catch {
    return undefined;
  }
}

function digestFor(home: string, field: string, path: string, env: NodeJS.ProcessEnv): string {
  const digest = wordsOf(home).modules.get(path) ?? startedWith(env).get(path);
  if (digest !== undefined) return digest;
  throw new UserInputError(
    field,
    path,
    `nobody has allowed it here: start the run by npx longhaul train in the stack's folder, which allows it as it is now, or ${RESTART}`,
  );
}

/** Of a run: from now on it is loaded as it was allowed when the run began. */
export interface ModuleOfRun {
  readonly field: string;
  readonly path: string;
  readonly run?: string | undefined;
  /** The run begins, or begins again. */
  readonly begins: boolean;
}

/**
 * Errors: `UserInputError` where nobody of this machine allowed the module; for a run that begins also where it cannot be
 * loaded as it was allowed. For one under way that is `ModuleChanged`.
 */
export function checkModuleAllowed(
  home: string,
  { field, path, run, begins }: ModuleOfRun,
  env: NodeJS.ProcessEnv = process.env,
): void {
  const allowed = digestFor(home, field, path, env);
  const begun = begins ? undefined : begunWith(home, run);
  const digest = begun?.path === path ? begun.digest : allowed;
  const copy = keptCopy(home, path, digest);
  const refuse = (why: string, remedy: string): never => {
    throw begins
      ? new UserInputError(field, path, `${why}: ${remedy}`)
      : new ModuleChanged(`${field}: ${path}: ${why}; ${remedy}`);
  };
  if (copy === undefined)
    return refuse(
      'its file has changed since it was allowed, and no copy of it is left',
      `put the file back, or begin the run again by npx longhaul train in the stack's folder, which allows it as it is now`,
    );
  if (begins && run !== undefined) writeWhole(runFile(home, run), `${digest} ${path}`);
  if (!readFromCopy(path, copy))
    refuse(
      'the workers have loaded it as it was before',
      'give the changed file another name, or run npx longhaul down, then npx longhaul up --detach, when no run needs the earlier one',
    );
}

/** Of work that names its run alone. Errors: `ModuleChanged`; `UserInputError` where the module is allowed no more. */
export function readAsBegun(home: string, run: string | undefined): void {
  const begun = begunWith(home, run);
  if (begun !== undefined)
    checkModuleAllowed(home, { field: 'algorithm.module', path: begun.path, run, begins: false });
}
