/** The thread of `namesOfModule`: it loads only that module, then posts the registered names. */

import { parentPort, workerData } from 'node:worker_threads';
import { readFromCopy } from '../../modules/import-own.ts';
import { advantageEstimators } from './advantages/registry.ts';
import { loadAlgorithms } from './own-module.ts';
import { policyLosses } from './losses/registry.ts';

const { module, copy } = workerData as { module: string; copy?: string };
if (copy !== undefined) readFromCopy(module, copy);
await loadAlgorithms({ module });
parentPort?.postMessage({ advantage: advantageEstimators.names(), loss: policyLosses.names() });
