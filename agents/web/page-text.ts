/**
 * The readable text of a page, made in a thread of its own, which is ended when it takes too long or too much memory: a
 * page may be made to be slow to read.
 */

import { Worker } from 'node:worker_threads';

export interface PageText {
  readonly title: string;
  readonly text: string;
}

/** The page cannot be made into text. */
export class UnreadablePage extends Error {
  override readonly name = 'UnreadablePage';
}

const HEAP_MIB = 256;
const LONGEST_MS = 15_000;

export interface PageToRead {
  readonly html: string;
}

/** `withinMs`: time for it. Errors: `UnreadablePage`; the reason of `signal`. */
export async function pageText(page: PageToRead, withinMs: number, signal: AbortSignal): Promise<PageText> {
  signal.throwIfAborted();
  // In the built package, both files are JavaScript.
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const worker = new Worker(new URL(`./page-text-thread.${extension}`, import.meta.url), {
    workerData: page,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB },
    stdout: true,
    stderr: true,
  });
  const { promise, resolve, reject } = Promise.withResolvers<PageText>();
  const timer = setTimeout(
    () => reject(new UnreadablePage('it takes too long to read')),
    Math.max(1, Math.min(withinMs, LONGEST_MS)),
  );
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort);
  worker.once('message', resolve);
  worker.once('error', (error: Error) => reject(new UnreadablePage(`it cannot be read (${error.message})`)));
  worker.once('exit', () => reject(new UnreadablePage('it cannot be read')));
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
    await worker.terminate();
  }
}
