/** The user's module with losses and advantage estimators. Each thread that needs its names loads it once. */

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { ObjectRef } from '../../protocol/stages.ts';
import { importCached } from '../../modules/import-bundle.ts';
import { importOwn, copyOf } from '../../modules/import-own.ts';

export interface Names {
  readonly advantage: readonly string[];
  readonly loss: readonly string[];
}

/**
 * Names of the built-in estimators and losses and of those that `module` defines. A new thread loads it, since a thread
 * cannot unload a module. Errors: those of importing `module`.
 */
export async function namesOfModule(module: string): Promise<Names> {
  // In the built package, both files are JavaScript.
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const thread = new Worker(new URL(`./names-thread.${extension}`, import.meta.url), {
    workerData: { module, copy: copyOf(module) },
  });
  const ended = once(thread, 'exit').then(() => {
    throw new Error('the thread that loads it ended without an answer');
  });
  ended.catch(() => undefined);
  try {
    return ((await Promise.race([once(thread, 'message'), ended])) as [Names])[0];
  } finally {
    await thread.terminate();
  }
}

/** What an update's names are defined by. */
export interface OwnDefinitions {
  readonly module?: string;
  readonly modules?: ObjectRef;
}

/** Loads the module, and the run's modules, which the process's main thread has put into the cache. Errors: its own. */
export async function loadAlgorithms({ module, modules }: OwnDefinitions): Promise<void> {
  if (module !== undefined) await importOwn(module);
  if (modules !== undefined) await importCached(modules);
}
