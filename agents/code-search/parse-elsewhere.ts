/**
 * Parses files in one thread of this process, so that heartbeats and other rollouts continue meanwhile. A thread that
 * does not answer in time, or that fails, is ended, and the next request gets a new one.
 */

import { Worker } from 'node:worker_threads';
import type { ParseAnswer, ParseRequest } from './parser-thread.ts';

const HEAP_MIB = 1024;
/** Milliseconds for one request. */
const LONGEST_MS = 120_000;

type Files = ParseAnswer['files'];

interface Waiting {
  readonly number: number;
  readonly resolve: (files: Files) => void;
  readonly count: number;
}

let thread: Worker | undefined;
let requests = 0;
/** The thread has one request at a time: what it does to the thread is done to no other one. */
let waiting: Waiting | undefined;
let last: Promise<unknown> = Promise.resolve();

/** Ends the thread. What waits for it gets no tree. */
function end(ended: Worker): void {
  if (thread !== ended) return;
  thread = undefined;
  void ended.terminate();
  waiting?.resolve(Array.from({ length: waiting.count }, () => undefined));
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
    if (waiting?.number === number) waiting.resolve(files);
  });
  made.on('error', () => end(made));
  made.on('exit', () => end(made));
  thread = made;
  return made;
}

async function parse(files: ParseRequest['files']): Promise<Files> {
  const worker = running();
  requests += 1;
  const { promise, resolve } = Promise.withResolvers<Files>();
  waiting = { number: requests, resolve, count: files.length };
  const timer = setTimeout(() => end(worker), LONGEST_MS);
  worker.ref();
  worker.postMessage({ number: requests, files } satisfies ParseRequest);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    waiting = undefined;
    worker.unref();
  }
}

/** In the order of `files`; `undefined` for one that could not be parsed. Requests are served one after the other. */
export async function parseElsewhere(files: ParseRequest['files']): Promise<Files> {
  if (files.length === 0) return [];
  const parsed = last.then(() => parse(files));
  last = parsed.catch(() => undefined);
  return await parsed;
}
