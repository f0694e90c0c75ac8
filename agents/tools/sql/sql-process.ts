/**
 * The process of queries. A query runs in its thread, which nothing can interrupt; this main thread ends the process if
 * the query takes too much memory, and if the worker that asked is gone. The worker ends it at the time limit.
 */

import { Worker } from 'node:worker_threads';
import type { SqlAnswer, SqlQuery } from './sql-request.ts';

const MOST_MEMORY = 512 << 20;
const LOOKS_EVERY_MS = 25;

// In the built package, all files are JavaScript.
const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
const thread = new Worker(new URL(`./sql-thread.${extension}`, import.meta.url), {
  resourceLimits: { maxOldGenerationSizeMb: 512 },
});

let watch: NodeJS.Timeout | undefined;

/** The last thing that this process does. */
const end = (): void => {
  process.kill(process.pid, 'SIGKILL');
};

function send(answer: SqlAnswer | 'ready', then: () => void = () => undefined): void {
  if (process.connected) process.send?.(answer, undefined, undefined, then);
}

process.on('message', (query: SqlQuery) => {
  watch = setInterval(() => {
    if (process.memoryUsage.rss() <= MOST_MEMORY) return;
    clearInterval(watch);
    send({ outcome: { kind: 'memory' } }, end);
  }, LOOKS_EVERY_MS);
  thread.postMessage(query);
});

thread.on('message', (answer: SqlAnswer | 'ready') => {
  clearInterval(watch);
  send(answer);
});
// A thread without memory for its rows ends, and so does the process.
thread.on('error', (error: NodeJS.ErrnoException) => {
  clearInterval(watch);
  const isLarge = error.code === 'ERR_WORKER_OUT_OF_MEMORY';
  send(isLarge ? { outcome: { kind: 'memory' } } : { unavailable: error.message }, end);
});
process.on('disconnect', end);
