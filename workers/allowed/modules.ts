/**
 * The user's modules that a worker may load: those that the stack was started with, and those that the command line
 * received. The file is copied when it is allowed, and the copy is loaded.
 */

import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, readFileSync } from 'node:fs';
import { delimiter, dirname, extname, join } from 'node:path';
import { writeWhole } from '#setup/files.mjs';
import { ModuleChanged } from '../../activities/failures.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { readFromCopy } from '../../modules/import-own.ts';
import { wordsOf } from './local-words.ts';

/** The stack's modules as they were when it was started: entries `PATH=SHA256`, separated like those of PATH. */
export const DIGESTS_VARIABLE = 'LONGHAUL_MODULE_DIGESTS';

const digestOf = (content: Buffer | string): string => createHash('sha256').update(content).digest('hex');

/** Errors: those of reading the file. */
export const moduleDigest = (path: string): string => digestOf(readFileSync(path));

/** A module that cannot be read is left out: loading it reports why. */
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
 * The path of the copy, in the stack's home, of the module whose file had this digest; made now if the file still has
 * this digest. `undefined` if there is no copy and the file has changed.
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

/** Copies the modules that a stack is started with: a later edit of a file changes none of its workers. */
export function keepModules(home: string, env: NodeJS.ProcessEnv): void {
  for (const [path, digest] of startedWith(env)) keptCopy(home, path, digest);
}

/**
 * Modules that the stack was started with are loaded as they were then.
 * Errors: `UserInputError` if a file has changed and its copy is missing.
 */
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
        `the file has changed since the stack was started, and the copy in ${home} is missing: restore the file, or run ${RESTART}`,
      );
    readFromCopy(path, copy);
  }
}

/** Records a run's module as it was when the run started: what is allowed later under that path is not this run's. */
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
    `it is not allowed here: start the run with npx longhaul train in the stack's folder, which allows the file as it is now, or run ${RESTART}`,
  );
}

/** A module that a run names: it is loaded as it was allowed when the run started. */
export interface ModuleOfRun {
  readonly field: string;
  readonly path: string;
  readonly run?: string | undefined;
  /** True if the run starts now, for the first time or again. */
  readonly begins: boolean;
}

/**
 * Errors: `UserInputError` if nobody on this machine allowed the module, or if the run starts now and the module cannot
 * be loaded as it was allowed. For a run in progress the latter is `ModuleChanged`.
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
      'the file has changed since it was allowed, and its copy is missing',
      `restore the file, or start the run again with npx longhaul train in the stack's folder, which allows the file as it is now`,
    );
  if (begins && run !== undefined) writeWhole(runFile(home, run), `${digest} ${path}`);
  if (!readFromCopy(path, copy))
    refuse(
      'the workers have loaded an earlier version of the file',
      'give the changed file another name, or, when no run needs the earlier version, run npx longhaul down, then npx longhaul up --detach',
    );
}

/** For activities that name only a run. Errors: `ModuleChanged`; `UserInputError` if its module is not allowed now. */
export function readAsBegun(home: string, run: string | undefined): void {
  const begun = begunWith(home, run);
  if (begun !== undefined)
    checkModuleAllowed(home, { field: 'algorithm.module', path: begun.path, run, begins: false });
}
