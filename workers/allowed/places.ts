/**
 * The folders that a worker reads policies from and writes runs to. A path in a workflow's input must be in one of them
 * after all links are resolved: the right to start a workflow does not give access to this machine's other files.
 */

import { realpathSync } from 'node:fs';
import { basename, delimiter, dirname, isAbsolute, join, parse, relative, resolve, sep } from 'node:path';
import { cacheDirectory, packageRoot } from '#setup/paths.mjs';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { hubCache } from '../../trainer/hub/hub-cache.ts';
import { stackHome } from '../../connection/stack-paths.ts';
import { wordsOf } from './local-words.ts';

/** Folders to read from, separated like those of PATH. */
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

/** Resolves all links of the part of the path that exists: the rest may be created later. */
export function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const above = dirname(path);
    return above === path ? path : join(realPath(above), basename(path));
  }
}

/** False for the root of a file system. */
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

/** The relative path from `place` to `path`; `undefined` if `path` is not in `place`. */
function within(place: string, path: string): string | undefined {
  const way = relative(place, path);
  return way === '..' || way.startsWith(`..${sep}`) || isAbsolute(way) ? undefined : way;
}

/** True for `place` itself too. Links are not resolved. */
export const isBelow = (place: string, path: string): boolean => within(place, path) !== undefined;

/** Hidden folders and `node_modules` are written to only if the operator allowed them. */
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

/**
 * Errors: `UserInputError` if sandboxes may not see `path` as their folder of tools: where the workers may read, but
 * not in the stack's home or above it, which holds what policies must not see.
 */
export function checkToolsPlace(places: Places, path: string): void {
  const real = realPath(resolve(path));
  if (isBelow(places.home, real) || isBelow(real, places.home))
    throw new UserInputError('toolsFolder', path, `give a folder that is not in ${places.home}, nor holds it`);
  checkPlace(places, 'read', 'toolsFolder', real);
}

/** `checkToolsPlace` with the folders of the process, as of now: what the command line allows later counts. */
export function toolsGuard(): (path: string) => void {
  const places = readPlaces();
  return (path) => checkToolsPlace(places, path);
}

/** Errors: `UserInputError` for `field` if this worker may not access `path`. */
export function checkPlace(places: Places, access: Access, field: string, path: string): void {
  if (isAllowed(places, access, realPath(resolve(path)))) return;
  const variable = access === 'read' ? PLACES_VARIABLE : RUN_PLACES_VARIABLE;
  const doing = access === 'read' ? 'read from' : 'make runs and evals in';
  const restart = `npx longhaul down, then ${variable}=DIR npx longhaul up --detach`;
  throw new UserInputError(
    field,
    path,
    `give a folder that the workers may ${doing}, pass it to npx longhaul train, eval or rollout in the ` +
      `stack's folder, or allow a folder above it: ${restart}`,
  );
}
