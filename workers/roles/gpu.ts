/** The GPU process: one engine per device; samples and trains. No workflow runs here. */

import { Worker } from '@temporalio/worker';
import { createGpuActivities } from '../../activities/gpu.ts';
import type { GenerateDeps, PolicyTokenizer } from '../../activities/generate.ts';
import { createEmbeddedEngine } from '../../trainer/embedded-engine.ts';
import { EndpointClient } from '../../trainer/backends/endpoint-client.ts';
import { fingerprintOf, MadeOfFiles } from '../../trainer/policy-files.ts';
import { loadTokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { QUEUES } from '../../workflows/queues.ts';
import { commonOptions, runWorkers } from '../run-worker.ts';
import { openWorkerStore } from '../worker-store.ts';
import { endingWhenLost } from './ending-when-lost.ts';
import type { WorkerSettings } from '../settings.ts';
import type { WorkerConnection } from '../temporal-connection.ts';

export async function runGpu(settings: WorkerSettings, temporal: WorkerConnection): Promise<void> {
  const store = openWorkerStore(settings);
  const engine = endingWhenLost(await createEmbeddedEngine());
  // Every version of a run's policy has its own copy of the same tokenizer.
  const tokenizers = new MadeOfFiles<PolicyTokenizer>(loadTokenizer, 8);
  const digests = new MadeOfFiles(fingerprintOf, 64);
  const deps: GenerateDeps = {
    store,
    engine,
    endpoints: new EndpointClient(),
    tokenizerOf: (dir) => tokenizers.of(dir),
    digestOf: (dir) => digests.of(dir),
  };
  const worker = await Worker.create({
    ...commonOptions(temporal, settings.slots.gpu),
    taskQueue: QUEUES.gpu,
    activities: { ...createGpuActivities(deps) },
  });
  await runWorkers('gpu', settings, [worker], async () => {
    await engine.close();
    await store.close();
  });
}
