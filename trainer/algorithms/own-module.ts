/** A module of one's own with losses and estimators: loaded once in each thread that needs its names. */

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { importOwn, copyOf } from '../../modules/import-own.ts';

export interface Names {
  readonly advantage: readonly string[];
  readonly loss: readonly string[];
}

/**
 * Names of estimators and losses where `module` is the only one, the built-in ones among them: another thread is asked,
 * since what is loaded in one stays there. Errors: those of importing `module`.
 */
export async function namesOfModule(module: string): Promise<Names> {
  // Built, this file and the thread's are JavaScript.
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const thread = new Worker(new URL(`./names-thread.${extension}`, import.meta.url), {
    workerData: { module, copy: copyOf(module) },
  });
  const ended = once(thread, 'exit').then(() => {
    throw new Error('its thread ended without a word');
  });
  ended.catch(() => undefined);
  try {
    return ((await Promise.race([once(thread, 'message'), ended])) as [Names])[0];
  } finally {
    await thread.terminate();
  }
}

/** Errors: those of importing it. */
export async function loadAlgorithms(module: string | undefined): Promise<void> {
  if (module !== undefined) await importOwn(module);
}
