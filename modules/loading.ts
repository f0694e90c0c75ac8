/**
 * Says whose code is being imported. Inside users' modules, `longhaul` is the package that loads them, so that their
 * definitions are registered here, whether this package is installed, a clone, or one of several copies.
 */

import { AsyncLocalStorage } from 'node:async_hooks';
import { registerHooks } from 'node:module';
import { extname } from 'node:path';

const PACKAGE = 'longhaul';
const entry = new URL(`../client/index${extname(import.meta.filename)}`, import.meta.url).href;
let isHooked = false;

/** The bundle that is imported now. */
export interface Loading {
  /** Paths of its modules, for messages. */
  readonly module: string;
  /** Its digest. */
  readonly bundle: string;
}

/** Kept on the process's global object, like the contents of registries. */
const shared = globalThis as unknown as Record<symbol, unknown>;
const loading = (shared[Symbol.for('longhaul loading')] ??=
  new AsyncLocalStorage<Loading>()) as AsyncLocalStorage<Loading>;

/** The bundle that is being imported now, if any. */
export const loadingNow = (): Loading | undefined => loading.getStore();

/** Installs the import hook, once in each thread. */
function leadToThisPackage(): void {
  if (isHooked) return;
  isHooked = true;
  registerHooks({
    resolve: (specifier, context, next) =>
      specifier === PACKAGE ? { url: entry, shortCircuit: true } : next(specifier, context),
  });
}

/** Calls `load`, which imports users' code: what it defines belongs to `what`. */
export function whileLoading<T>(what: Loading, load: () => Promise<T>): Promise<T> {
  leadToThisPackage();
  return loading.run(what, load);
}
