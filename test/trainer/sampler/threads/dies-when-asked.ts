/** A thread instead of the engine's that ends at its first request, as the message says. */

import { parentPort, workerData } from 'node:worker_threads';

parentPort?.on('message', () => {
  if ((workerData as { readonly how?: string }).how === 'throw') throw new RangeError('out of luck');
  process.exit(7);
});
parentPort?.postMessage({ kind: 'ready' });
