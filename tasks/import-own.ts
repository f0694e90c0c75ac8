/**
 * A module of one's own, in which `longhaul` is the very package that loads it: what it defines is defined here, whether
 * this package is installed, a clone or a copy beside another.
 */

import { AsyncLocalStorage } from 'node:async_hooks';
import { registerHooks } from 'node:module';
import { extname } from 'node:path';
import { pathToFileURL } from 'node:url';

const PACKAGE = 'longhaul';
const entry = new URL(`../cli/index${extname(import.meta.filename)}`, import.meta.url).href;
let isHooked = false;

/** On the process's global object, as what registries hold. */
const shared = globalThis as unknown as Record<symbol, AsyncLocalStorage<string> | undefined>;
const loading = (shared[Symbol.for('longhaul loading')] ??= new AsyncLocalStorage<string>());

/** Path of the module of one's own whose import led here, where one did. */
export const loadingModule = (): string | undefined => loading.getStore();

/** Once in each thread. */
function leadToThisPackage(): void {
  if (isHooked) return;
  isHooked = true;
  registerHooks({
    resolve: (specifier, context, next) => (specifier === PACKAGE ? { url: entry, shortCircuit: true } : next(specifier, context)),
  });
}

/** Imports the module at `path`, which is absolute, once. Errors: those of importing it. */
export async function importOwn(path: string): Promise<void> {
  leadToThisPackage();
  await loading.run(path, () => import(pathToFileURL(path).href));
}
