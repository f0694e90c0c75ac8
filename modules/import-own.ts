/**
 * Imports a user's module. Inside it, `longhaul` is the package that loads it, so that its definitions are registered
 * here, whether this package is installed, a clone, or one of several copies.
 */

import { AsyncLocalStorage } from 'node:async_hooks';
import { registerHooks } from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const PACKAGE = 'longhaul';
const entry = new URL(`../client/index${extname(import.meta.filename)}`, import.meta.url).href;
let isHooked = false;

/** What is imported now. */
export interface Loading {
  /** The user's module, or those of a bundle: their paths, for messages. */
  readonly module: string;
  /** Digest of the bundle. Absent: a module that the whole process knows. */
  readonly bundle?: string;
}

/** Kept on the process's global object, like the contents of registries. */
const shared = globalThis as unknown as Record<symbol, unknown>;
const loading = (shared[Symbol.for('longhaul loading')] ??=
  new AsyncLocalStorage<Loading>()) as AsyncLocalStorage<Loading>;
/** By a module's URL: the URL of the file that is read instead. */
const copies = (shared[Symbol.for('longhaul module copies')] ??= new Map<string, string>()) as Map<string, string>;

/** The user's module or bundle that is being imported now, if any. */
export const loadingNow = (): Loading | undefined => loading.getStore();

/** Installs the import hooks, once in each thread. */
function leadToThisPackage(): void {
  if (isHooked) return;
  isHooked = true;
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier === PACKAGE) return { url: entry, shortCircuit: true };
      return copies.has(specifier) ? { url: specifier, shortCircuit: true } : next(specifier, context);
    },
    // The module's own imports are still resolved from its original place.
    load: (url, context, next) => next(copies.get(url) ?? url, context),
  });
}

/**
 * From now on the module at `path` is read from `copy`, even if its file changes. Both paths are absolute. Returns
 * `false` if this thread already uses another copy of it, which stays.
 */
export function readFromCopy(path: string, copy: string): boolean {
  const [url, from] = [pathToFileURL(path).href, pathToFileURL(copy).href];
  if (!copies.has(url)) copies.set(url, from);
  return copies.get(url) === from;
}

/** The copy from which the module at `path` is read, if there is one. */
export function copyOf(path: string): string | undefined {
  const url = copies.get(pathToFileURL(path).href);
  return url === undefined ? undefined : fileURLToPath(url);
}

/** Calls `load`, which imports users' code: what it defines belongs to `what`. */
export function whileLoading<T>(what: Loading, load: () => Promise<T>): Promise<T> {
  leadToThisPackage();
  return loading.run(what, load);
}

/** Imports the module at `path` (absolute), once. Errors: those of the import. */
export async function importOwn(path: string): Promise<void> {
  await whileLoading({ module: path }, () => import(pathToFileURL(path).href));
}
