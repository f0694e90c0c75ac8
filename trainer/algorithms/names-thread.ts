/** The thread of `namesOfModule`: it loads that module and no other, and says what there is then. */

import { parentPort, workerData } from 'node:worker_threads';
import { advantageEstimators } from './advantages/registry.ts';
import { loadAlgorithms } from './load-module.ts';
import { policyLosses } from './losses/registry.ts';

await loadAlgorithms((workerData as { module: string }).module);
parentPort?.postMessage({ advantage: advantageEstimators.names(), loss: policyLosses.names() });
