/**
 * Parses files in one thread of this process, so that heartbeats and other rollouts continue meanwhile. A thread that
 * does not answer in time, or that fails, is ended, and the next request gets a new one.
 */

import { Worker } from 'node:worker_threads';
import type { ParsedFile } from './parse-file.ts';
import type { ParseAnswer, ParseRequest } from './parser-thread.ts';

const HEAP_MIB = 1024;
/** Milliseconds for one request, in which others may be ahead. */
const LONGEST_MS = 120_000;

interface Waiting {
  readonly resolve: (files: ParseAnswer['files']) => void;
  readonly count: number;
}

let thread: Worker | undefined;
let requests = 0;
const waiting = new Map<number, Waiting>();

/** Ends the thread. What waits for it gets no tree. */
function end(ended: Worker): void {
  if (thread !== ended) return;
  thread = undefined;
  void ended.terminate();
  for (const [number, { resolve, count }] of waiting) {
    waiting.delete(number);
    resolve(Array.from({ length: count }, () => undefined));
  }
}

function running(): Worker {
  if (thread) return thread;
  // In the built package, both files are JavaScript.
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const made = new Worker(new URL(`./parser-thread.${extension}`, import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB },
  });
  made.unref();
  made.on('message', ({ number, files }: ParseAnswer) => {
    waiting.get(number)?.resolve(files);
    waiting.delete(number);
  });
  made.on('error', () => end(made));
  made.on('exit', () => end(made));
  thread = made;
  return made;
}

/** In the order of `files`; `undefined` for one that could not be parsed. */
export async function parseElsewhere(files: ParseRequest['files']): Promise<ReadonlyArray<ParsedFile | undefined>> {
  if (files.length === 0) return [];
  const worker = running();
  requests += 1;
  const number = requests;
  const { promise, resolve } = Promise.withResolvers<ParseAnswer['files']>();
  waiting.set(number, { resolve, count: files.length });
  const timer = setTimeout(() => end(worker), LONGEST_MS);
  worker.ref();
  worker.postMessage({ number, files } satisfies ParseRequest);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    if (waiting.size === 0) worker.unref();
  }
}
