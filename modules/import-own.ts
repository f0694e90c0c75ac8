/**
 * A module of one's own, in which `longhaul` is the very package that loads it: what it defines is defined here, whether
 * this package is installed, a clone or a copy beside another.
 */

import { AsyncLocalStorage } from 'node:async_hooks';
import { registerHooks } from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const PACKAGE = 'longhaul';
const entry = new URL(`../client/index${extname(import.meta.filename)}`, import.meta.url).href;
let isHooked = false;

/** On the process's global object, as what registries hold. */
const shared = globalThis as unknown as Record<symbol, unknown>;
const loading = (shared[Symbol.for('longhaul loading')] ??=
  new AsyncLocalStorage<string>()) as AsyncLocalStorage<string>;
/** URLs of files to read instead, by a module's own. */
const copies = (shared[Symbol.for('longhaul module copies')] ??= new Map<string, string>()) as Map<string, string>;

/** Path of the module of one's own whose import led here, where one did. */
export const loadingModule = (): string | undefined => loading.getStore();

/** Once in each thread. */
function leadToThisPackage(): void {
  if (isHooked) return;
  isHooked = true;
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier === PACKAGE) return { url: entry, shortCircuit: true };
      return copies.has(specifier) ? { url: specifier, shortCircuit: true } : next(specifier, context);
    },
    // What it imports is still looked for from where the module is.
    load: (url, context, next) => next(copies.get(url) ?? url, context),
  });
}

/**
 * From now on the module at `path` is what its copy holds, whatever becomes of its file; both are absolute. `false` where
 * this thread has another copy of it already, which stays.
 */
export function readFromCopy(path: string, copy: string): boolean {
  const [url, from] = [pathToFileURL(path).href, pathToFileURL(copy).href];
  if (!copies.has(url)) copies.set(url, from);
  return copies.get(url) === from;
}

/** The file that the module at `path` is read from. */
export function copyOf(path: string): string | undefined {
  const url = copies.get(pathToFileURL(path).href);
  return url === undefined ? undefined : fileURLToPath(url);
}

/** Imports the module at `path`, which is absolute, once. Errors: those of importing it. */
export async function importOwn(path: string): Promise<void> {
  leadToThisPackage();
  await loading.run(path, () => import(pathToFileURL(path).href));
}
