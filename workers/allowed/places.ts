/**
 * The folders that a worker reads policies from and writes runs to. What a workflow's input names lies in one of them,
 * after every link is resolved: whoever may start a workflow is not thereby told what is on this machine.
 */

import { realpathSync } from 'node:fs';
import { basename, delimiter, dirname, isAbsolute, join, parse, relative, resolve, sep } from 'node:path';
import { cacheDirectory, packageRoot } from '#setup/paths.mjs';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { hubCache } from '../../trainer/hub/hub-cache.ts';
import { stackHome } from '../../connection/stack-paths.ts';
import { wordsOf } from './local-words.ts';

/** Folders to read from, separated as those of PATH are. */
export const PLACES_VARIABLE = 'LONGHAUL_PLACES';
/** Folders to make runs and evals in, and to read from. */
export const RUN_PLACES_VARIABLE = 'LONGHAUL_RUN_PLACES';

export type Access = 'read' | 'write';

export interface Places {
  readonly home: string;
  /** The folder that the stack was started in. */
  readonly project: readonly string[];
  readonly read: readonly string[];
  readonly write: readonly string[];
}

/** Absolute, each once, in their order. */
export function namedPlaces(variable: string, env: NodeJS.ProcessEnv, cwd: string): string[] {
  const given = (env[variable] ?? '').split(delimiter).filter((path) => path !== '');
  return [...new Set(given.map((path) => resolve(cwd, path)))];
}

/** With every link resolved, as far as there is something: what is missing of it may yet be made. */
export function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const above = dirname(path);
    return above === path ? path : join(realPath(above), basename(path));
  }
}

/** A whole file system is no project. */
const isProject = (folder: string): boolean => parse(folder).root !== folder;

export function readPlaces(env: NodeJS.ProcessEnv = process.env, cwd = process.cwd()): Places {
  const home = realPath(stackHome(env, cwd));
  const project = [cwd, ...(basename(home) === '.longhaul' ? [dirname(home)] : [])].map(realPath).filter(isProject);
  const own = [home, packageRoot, cacheDirectory(env), hubCache(env)];
  return {
    home,
    project: [...new Set(project)],
    read: [...own, ...namedPlaces(PLACES_VARIABLE, env, cwd)].map(realPath),
    write: namedPlaces(RUN_PLACES_VARIABLE, env, cwd).map(realPath),
  };
}

/** The way from `place` to `path`, which is in it; else `undefined`. */
function within(place: string, path: string): string | undefined {
  const way = relative(place, path);
  return way === '..' || way.startsWith(`..${sep}`) || isAbsolute(way) ? undefined : way;
}

/** What is hidden in a folder, and its dependencies, are written to only where the operator said so. */
const isHidden = (way: string): boolean =>
  way.split(sep).some((name) => name.startsWith('.') || name === 'node_modules');

function isAllowed({ home, project, read, write }: Places, access: Access, path: string): boolean {
  const isIn = (places: readonly string[]) => places.some((place) => within(place, path) !== undefined);
  if (isIn(write)) return true;
  const words = wordsOf(home);
  if (access === 'read') return isIn([...project, ...read, ...words.read, ...words.write]);
  return (
    within(home, path) === undefined &&
    [...project, ...words.write].some((place) => !isHidden(within(place, path) ?? '.'))
  );
}

/** Errors: `UserInputError` for `field` where `path` is none that this worker was given. */
export function checkPlace(places: Places, access: Access, field: string, path: string): void {
  if (isAllowed(places, access, realPath(resolve(path)))) return;
  const variable = access === 'read' ? PLACES_VARIABLE : RUN_PLACES_VARIABLE;
  const doing = access === 'read' ? 'read from' : 'make runs and evals in';
  const restart = `npx longhaul down, then ${variable}=DIR npx longhaul up --detach`;
  throw new UserInputError(
    field,
    path,
    `give a folder that the workers may ${doing}, name it to npx longhaul train, eval or rollout in the stack's folder, or allow its place: ${restart}`,
  );
}
