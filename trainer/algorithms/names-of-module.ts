/** What is defined where a module of one's own is the only one: another thread is asked, since what is loaded in one stays there. */

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { copyOf } from '../../modules/import-own.ts';

export interface Names {
  readonly advantage: readonly string[];
  readonly loss: readonly string[];
}

/** Names of estimators and losses, the built-in ones among them. Errors: those of importing `module`. */
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
