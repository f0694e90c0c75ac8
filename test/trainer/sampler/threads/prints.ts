/** A thread instead of the engine's that prints as libraries do, and ends. */

import { parentPort } from 'node:worker_threads';

console.log('a greeting');
process.stderr.write('a warning\nof two lines\n');
parentPort?.postMessage({ kind: 'ready' });
