/**
 * The rows of a Parquet file, read in a thread of its own: a damaged file can make its reader throw where
 * nothing catches it, run without end, or take all memory. That ends the thread, and is an error of the file.
 */

import { Worker } from 'node:worker_threads';
import type { ParquetPart } from './parquet-thread.ts';

const HEAP_MIB = 2048;
/** Milliseconds for one slice. */
const LONGEST_MS = 300_000;

/** Errors: those of the read, also for a file that is damaged or no Parquet. */
export async function* parquetRows(file: string): AsyncGenerator<Record<string, unknown>> {
  // In the built package, both files are JavaScript.
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const thread = new Worker(new URL(`./parquet-thread.${extension}`, import.meta.url), {
    workerData: file,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB },
  });
  const ended = Promise.withResolvers<never>();
  // The calls that wait for a part get this failure.
  ended.promise.catch(() => undefined);
  thread.on('error', (error) => ended.reject(error));
  thread.on('exit', () => ended.reject(new Error('its reader ended')));
  const part = async (): Promise<ParquetPart> => {
    const { promise, resolve, reject } = Promise.withResolvers<ParquetPart>();
    const timer = setTimeout(() => reject(new Error('it takes too long to read')), LONGEST_MS);
    thread.once('message', resolve);
    thread.postMessage('next');
    return await Promise.race([promise, ended.promise]).finally(() => clearTimeout(timer));
  };
  try {
    for (;;) {
      const { rows, end } = await part();
      yield* rows;
      if (end === '') return;
      if (end !== undefined) throw new Error(end);
    }
  } finally {
    await thread.terminate();
  }
}
